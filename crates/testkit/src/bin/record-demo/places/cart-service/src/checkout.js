import { randomUUID } from "node:crypto"

import { total } from "./cart.js"
import { getCart, orderFor, saveOrder } from "./store.js"

// `key` is the client's Idempotency-Key: a retry must not order twice.
export function checkout(cartId, key) {
  const earlier = orderFor(key)
  if (earlier) return earlier

  const cart = getCart(cartId)
  if (cart.lines.length === 0) throw new Error("the cart is empty")
  const order = { id: randomUUID(), cartId, total: total(cart), at: new Date().toISOString() }
  saveOrder(key, order)
  return order
}
