import { randomUUID } from "node:crypto"
import { createServer } from "node:http"

import { addLine, applyCoupon, total } from "./cart.js"
import { checkout } from "./checkout.js"
import { format } from "./money.js"
import { getCart, newCart } from "./store.js"

const view = (cart) => ({
  ...cart,
  total: total(cart),
  display: format(total(cart)),
})

const routes = {
  "POST /carts": () => view(newCart(randomUUID())),
  "GET /carts/:id": ({ id }) => view(getCart(id)),
  "POST /carts/:id/lines": ({ id, body }) =>
    view(addLine(getCart(id), body.sku, body.price, body.quantity)),
  "POST /carts/:id/coupon": ({ id, body }) => view(applyCoupon(getCart(id), body.code)),
  "POST /carts/:id/checkout": ({ id, headers }) =>
    checkout(id, headers["idempotency-key"] ?? randomUUID()),
}

createServer(async (request, response) => {
  const [, , id] = request.url.split("/")
  const route = routes[`${request.method} ${id ? request.url.replace(id, ":id") : request.url}`]
  response.setHeader("content-type", "application/json")
  try {
    if (!route) throw new Error("no such route")
    const chunks = await request.toArray()
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : {}
    response.end(JSON.stringify(route({ id, body, headers: request.headers })))
  } catch (error) {
    response.statusCode = 400
    response.end(JSON.stringify({ error: error.message }))
  }
}).listen(process.env.PORT ?? 8080)
