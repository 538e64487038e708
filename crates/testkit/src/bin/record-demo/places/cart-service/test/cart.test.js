import assert from "node:assert/strict"
import { test } from "node:test"

import { addLine, applyCoupon, createCart, total } from "../src/cart.js"

test("adds up the lines", () => {
  const cart = addLine(addLine(createCart("c1"), "mug", 1250, 2), "tea", 480)
  assert.equal(total(cart), 2980)
})

test("merges lines of the same article", () => {
  const cart = addLine(addLine(createCart("c2"), "mug", 1250), "mug", 1250, 3)
  assert.equal(cart.lines.length, 1)
  assert.equal(total(cart), 5000)
})

test("takes a percentage off", () => {
  const cart = applyCoupon(addLine(createCart("c3"), "lamp", 2000, 2), "SPRING15")
  assert.equal(total(cart), 3400)
})

test("never goes below zero", () => {
  const cart = applyCoupon(addLine(createCart("c4"), "tea", 480), "WELCOME5")
  assert.equal(total(cart), 0)
})

test("matches the invoice of order 10482", () => {
  const cart = applyCoupon(addLine(createCart("c5"), "throw", 1999, 3), "SPRING15")
  assert.equal(total(cart), 5097)
})
