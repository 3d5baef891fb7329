import { useEffect, useState } from './dom.js'

/** A value that several parts of the UI show. */
export class Store {
  #subscribers = new Set()

  constructor(value) {
    this.value = value
  }

  set(value) {
    this.value = value
    for (const fn of [...this.#subscribers]) fn(value)
  }

  /** @returns {() => void} ends the subscription */
  subscribe(fn) {
    this.#subscribers.add(fn)
    return () => this.#subscribers.delete(fn)
  }
}

/** Returns the value of a store, and draws the component again when it changes. */
export function useStore(store) {
  const [value, setValue] = useState(store.value)
  useEffect(() => {
    setValue(() => store.value) // it can have changed between the drawing and the subscription
    return store.subscribe((v) => setValue(() => v))
  }, [store])
  return value
}
