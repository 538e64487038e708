import { createCart } from "./cart.js"

const carts = new Map()
const orders = new Map()

export function newCart(id) {
  const cart = createCart(id)
  carts.set(id, cart)
  return cart
}

export function getCart(id) {
  const cart = carts.get(id)
  if (!cart) throw new Error(`no such cart: ${id}`)
  return cart
}

export function orderFor(key) {
  return orders.get(key)
}

export function saveOrder(key, order) {
  orders.set(key, order)
}
