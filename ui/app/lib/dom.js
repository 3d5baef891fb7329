// The one door to the vendored libraries: pages and parts import from here.
import { h, render } from '../vendor/preact.js'
import htm from '../vendor/htm.js'

export {
  useCallback, useEffect, useErrorBoundary, useId, useLayoutEffect, useRef, useState,
} from '../vendor/hooks.js'
export { render }

/** Markup as a tagged template. Values are inserted as text or properties, never as markup. */
export const html = htm.bind(h)
