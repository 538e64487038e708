// Amounts are integers in cents, so that sums are exact.

export function percentOf(amount, percent) {
  return Math.floor((amount * percent) / 100)
}

export function format(amount) {
  return "€" + (amount / 100).toFixed(2)
}
