// Keeps creating carts and prints the memory in use once a minute: `node scripts/soak.js [minutes]`.
import { setTimeout as sleep } from "node:timers/promises"

import { addLine } from "../src/cart.js"
import { newCart } from "../src/store.js"

const minutes = Number(process.argv[2] ?? 10)
const start = Date.now()
let created = 0
for (let minute = 0; minute <= minutes; minute++) {
  const used = process.memoryUsage().heapUsed / 2 ** 20
  console.log(`minute ${minute}: ${created} carts, ${used.toFixed(1)} MiB in use`)
  while (Date.now() < start + (minute + 1) * 60_000) {
    for (let n = 0; n < 50; n++) addLine(newCart(`soak-${created++}`), "mug", 1250)
    await sleep(10)
  }
}
