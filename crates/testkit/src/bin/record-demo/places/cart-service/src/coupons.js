const coupons = new Map([
  ["SPRING15", { percent: 15 }],
  ["WELCOME5", { amount: 500 }],
])

export function findCoupon(code) {
  const coupon = coupons.get(code.toUpperCase())
  if (!coupon) throw new Error(`unknown coupon: ${code}`)
  return coupon
}
