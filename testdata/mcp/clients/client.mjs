// Makes the calls of plan.py with a TypeScript client, and prints the number of checks.
//
// Usage: node client.mjs PACKAGE PLAN stdio PROGRAM ARGUMENT...
//        node client.mjs PACKAGE PLAN http URL
// PACKAGE is @modelcontextprotocol/sdk or @modelcontextprotocol/client, which is installed
// in the working directory. CRABMEM_TOKEN is the token.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [pkg, planFile, how, ...target] = process.argv.slice(2)
const require = createRequire(process.cwd() + '/')
const load = async path => await import(pathToFileURL(require.resolve(path)).href)
const old = pkg.endsWith('/sdk')
const [client, stdio, http] = old
  ? [await load(pkg + '/client/index.js'), await load(pkg + '/client/stdio.js'), await load(pkg + '/client/streamableHttp.js')]
  : [await load(pkg), await load(pkg + '/stdio'), await load(pkg)]
const token = process.env.CRABMEM_TOKEN
const transport = how === 'stdio'
  ? new stdio.StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env })
  : new http.StreamableHTTPClientTransport(new URL(target[0]), { requestInit: { headers: { Authorization: 'Bearer ' + token } } })
const c = new client.Client({ name: 'checks', version: '1' })
await c.connect(transport)

let checks = 0
const faults = []
const check = (good, what) => { checks++; if (!good) faults.push(what) }
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b)
const text = list => list.map(x => x.text ?? '').join('\n')

const plan = JSON.parse(readFileSync(planFile, 'utf8'))
const tools = (await c.listTools()).tools.map(t => t.name)
check(plan.tools.every(t => tools.includes(t)), `tools ${tools}`)
for (const step of plan.steps) {
  if (step.read !== undefined) {
    const r = await c.readResource({ uri: step.read })
    check(text(r.contents) === step.text, `${step.read}: ${JSON.stringify(r)}`)
    continue
  }
  const r = await c.callTool({ name: step.tool, arguments: step.args })
  const what = `${step.tool} ${JSON.stringify(step.args)}: ${JSON.stringify(r)}`
  check((r.isError ?? false) === step.error && text(r.content).includes(step.has), what)
  if (!step.error) {
    check(r.structuredContent && Object.entries(step.value).every(([k, v]) => same(r.structuredContent[k], v)), what)
  }
}
await c.close()
console.log(`${checks} checks, ${faults.length} faults`)
for (const f of faults.slice(0, 10)) console.log(f.slice(0, 500))
process.exitCode = faults.length > 0 ? 1 : 0
