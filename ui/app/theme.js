// Sets the theme that the user chose, before the first paint. It is not a module, because modules run
// after the page is drawn. Without a choice, the style sheet follows the system.
(() => {
  const theme = localStorage.getItem('nomad.theme')
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme
})()
