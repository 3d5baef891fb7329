// The list of the built versions, for the choice in the header. It is written twice: as
// JSON for other programs, and as a script for pages that are opened as files.
import fs from 'node:fs'
import path from 'node:path'

// writeVersions lists the builds below dir, the newest first, and makes the page that leads to the newest.
export function writeVersions(dir) {
  const versions = fs.readdirSync(dir).filter((v) => fs.existsSync(path.join(dir, v, 'pages.json')))
    .sort((a, b) => b.localeCompare(a, 'en', { numeric: true }))
    .map((version) => ({ version, pages: JSON.parse(fs.readFileSync(path.join(dir, version, 'pages.json'), 'utf8')) }))
  const text = JSON.stringify(versions)
  fs.writeFileSync(path.join(dir, 'versions.json'), text + '\n')
  fs.writeFileSync(path.join(dir, 'versions.js'), `window.siteVersions = ${text}\n`)
  const newest = versions[0].version
  fs.writeFileSync(path.join(dir, 'index.html'), `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>open-nomad</title>
<meta http-equiv="refresh" content="0; url=${newest}/index.html">
<p><a href="${newest}/index.html">The documentation of open-nomad ${newest}</a></p>
</html>
`)
}
