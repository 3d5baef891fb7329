// A session of a command in a task: one websocket between the terminal and the agent.
//
// The token is in the first message, never in the URL, because URLs are kept in logs.
import { at, url } from '../../lib/api.js'
import { currentToken } from '../../lib/session.js'

const BEAT = 10_000
const CHUNK = 8 << 10 // bytes of input in one message
const PENDING = 4 << 20 // bytes that the terminal has not drawn yet: more is left out

export class Session {
  /** Called with {name, code, error}: name is 'open' or 'ended'. */
  onState = () => {}
  #options
  #socket = null
  #beat = 0
  #pending = 0
  #dropped = 0
  #result = null
  #asked = false

  /** @param {{alloc: string, namespace: string, task: string, command: string[], terminal: object}} options */
  constructor(options) {
    this.#options = options
  }

  open() {
    const { alloc, namespace, task, command, terminal } = this.#options
    const address = new URL(url(at`/v1/client/allocation/${alloc}/exec`, { namespace, task, tty: true, ws_handshake: true, command: JSON.stringify(command) }), location.href)
    address.protocol = location.protocol === 'https:' ? 'wss:' : 'ws:'
    const socket = this.#socket = new WebSocket(address)
    socket.onopen = () => {
      this.#send({ version: 1, auth_token: currentToken() })
      this.#size(terminal.size())
      this.#beat = setInterval(() => this.#send({}), BEAT)
      this.onState({ name: 'open' })
    }
    socket.onmessage = (event) => this.#receive(JSON.parse(event.data))
    socket.onclose = (event) => this.#closed(event)
    terminal.onInput = (bytes) => this.#input(bytes)
    terminal.onSize = (size) => this.#size(size)
  }

  close() {
    this.#asked = true
    this.#socket?.close(1000)
  }

  #send(message) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
  }

  #size({ rows, cols }) {
    this.#send({ tty_size: { height: rows, width: cols } })
  }

  #input(bytes) {
    for (let i = 0; i < bytes.length; i += CHUNK) {
      this.#send({ stdin: { data: btoa(String.fromCharCode(...bytes.subarray(i, i + CHUNK))) } })
    }
  }

  #receive(message) {
    const data = message.stdout?.data ?? message.stderr?.data
    if (data) this.#write(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)))
    if (message.exited) this.#result = message.result ?? {}
  }

  /** Writes output. A command can write faster than a terminal draws. */
  #write(bytes) {
    if (this.#pending > PENDING) {
      this.#dropped += bytes.length
      return
    }
    if (this.#dropped > 0) this.#options.terminal.write(`\r\n[${this.#dropped} bytes of output left out]\r\n`, () => {})
    this.#dropped = 0
    this.#pending += bytes.length
    this.#options.terminal.write(bytes, () => { this.#pending -= bytes.length })
  }

  #closed({ code, reason }) {
    clearInterval(this.#beat)
    this.#options.terminal.stop()
    if (this.#result) this.onState({ name: 'ended', code: this.#result.exit_code ?? 0 })
    else if (this.#asked) this.onState({ name: 'ended' })
    else this.onState({ name: 'ended', error: reason || `The connection has ended (code ${code}).` })
  }
}
