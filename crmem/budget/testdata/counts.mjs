// Writes counts.tsv and random.jsonl: what js-tiktoken, an implementation of
// its own, counts in the texts beside it with cl100k_base. A part is what lies
// between empty lines; part 0 is the whole file.
//
//	npm install js-tiktoken@1.0.21 && node counts.mjs
import { readFileSync, writeFileSync } from 'node:fs'
import { getEncoding } from 'js-tiktoken'

const enc = getEncoding('cl100k_base')
const count = s => enc.encode(s, [], []).length

let tsv = 'file\tpart\ttokens\n'
for (const file of ['prose.txt', 'code.txt', 'cjk.txt', 'json.txt', 'world.txt']) {
  const text = readFileSync(file, 'utf8')
  for (const [i, part] of [text, ...text.split('\n\n')].entries()) tsv += `${file}\t${i}\t${count(part)}\n`
}
writeFileSync('counts.tsv', tsv)

let seed = 1
const rand = n => (seed = (seed * 48271) % 2147483647) % n
const pieces = ['the', ' crab', 'Store', "'s", "'LL", ' ', '  ', '\n', '\r\n', '\t', '。', '漢字', 'かな', 'カ', '한국', 'é', 'e\u0301', '🦀',
  '👩‍💻', '🇫🇮', '0', '42', '1234567', '-', '--', '...', '!?', '{"a":', '</', '://', '_', '\u00a0', '\u3000', 'Ω', 'жук', 'ﷺ', 'नमस्ते', 'x'.repeat(40),
  ' '.repeat(90), '='.repeat(33), '<|endoftext|>', '```', '#', '\u200b', 'aA', 'ZZ', '\u{20bb7}', '٣']
// No U+FEFF: white space for JavaScript and for nobody else.
let jsonl = ''
for (let i = 0; i < 300; i++) {
  let text = ''
  for (let n = 1 + rand(30); n > 0; n--) text += pieces[rand(pieces.length)]
  jsonl += JSON.stringify({ text, tokens: count(text) }) + '\n'
}
writeFileSync('random.jsonl', jsonl)
