import { findCoupon } from "./coupons.js"
import { percentOf } from "./money.js"

export function createCart(id) {
  return { id, lines: [], coupon: null }
}

export function addLine(cart, sku, price, quantity = 1) {
  const line = cart.lines.find((line) => line.sku === sku)
  if (line) line.quantity += quantity
  else cart.lines.push({ sku, price, quantity })
  return cart
}

export function applyCoupon(cart, code) {
  cart.coupon = findCoupon(code)
  return cart
}

export function subtotal(cart) {
  return cart.lines.reduce((sum, line) => sum + line.price * line.quantity, 0)
}

export function discount(cart) {
  const { coupon } = cart
  if (!coupon) return 0
  if (coupon.amount) return Math.min(coupon.amount, subtotal(cart))
  const off = (line) => percentOf(line.price, coupon.percent) * line.quantity
  return cart.lines.reduce((sum, line) => sum + off(line), 0)
}

export function total(cart) {
  return subtotal(cart) - discount(cart)
}
