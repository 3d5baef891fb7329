// The theme that the reader chose. It runs before the page is drawn, so that nothing flashes.
'use strict'
try {
  const theme = localStorage.getItem('theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
} catch { /* storage is off: the theme of the system */ }
document.documentElement.classList.add('scripts')
