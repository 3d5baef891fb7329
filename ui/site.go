package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
)

const (
	// Root is the path of the UI.
	Root = "/ui/"
	// static is the path of the files. The next segment is the version.
	static = Root + "static/"
	// terminal is the path of the terminals. xterm.js makes <style> elements at run time, so these pages
	// have a policy of their own. The router of the UI loads them as documents.
	terminal = Root + "exec/"
	// forGood lets browsers keep a file for a year without asking again.
	forGood = "public, max-age=31536000, immutable"
	// styles is the name of the file with all style sheets.
	styles = "styles.css"
	// bundled is the name of the file with all modules. `make build` joins them with esbuild.
	bundled = "bundle.js"
)

//go:embed app
var app embed.FS

// Config is the configuration of a Site. It comes from the ui block of the agent configuration.
type Config struct {
	Disabled bool // serve a page that says so
	Policy   Policy
	Label    Label
	// ConsulURL and VaultURL are links to the UIs of Consul and Vault, "" for none.
	ConsulURL, VaultURL string
}

// Label is a banner that distinguishes one cluster from another. Its colors are CSS colors.
type Label struct{ Text, Background, Color string }

// Site is the http.Handler of the web UI.
type Site struct {
	disabled bool
	policy   string
	terminal string // the policy of terminals
	version  string
	script   string // what the index loads: bundled, or main.js, which imports the modules
	index    *file
	files    map[string]*file // by path below app/, with styles and bundled
}

// New returns the handler of the web UI. The error names the field of the ui block that is invalid.
func New(c Config) (*Site, error) {
	for _, f := range c.Faults() {
		return nil, fmt.Errorf("%s: %s", f.Key, f.Text)
	}
	s := &Site{disabled: c.Disabled, policy: c.Policy.String(), terminal: c.Policy.terminal().String(), files: map[string]*file{}}
	if err := s.load(); err != nil {
		return nil, err
	}
	index, err := s.fillIndex(c)
	if err != nil {
		return nil, err
	}
	s.index = newFile("index.html", index)
	return s, nil
}

// load reads the embedded files and computes their version.
func (s *Site) load() error {
	err := fs.WalkDir(app, "app", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := app.ReadFile(name)
		s.add(strings.TrimPrefix(name, "app/"), body)
		return err
	})
	if err != nil {
		return err
	}
	s.add(styles, s.joinStyles())
	s.script = "main.js"
	if packed, err := bundle.ReadFile("bundle/" + bundled + ".gz"); err == nil {
		if s.files[bundled], err = newPacked(bundled, packed); err != nil {
			return err
		}
		s.script = bundled
	}
	all := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		fmt.Fprintf(all, "%s %s\n", name, s.files[name].tag)
	}
	s.version = hex.EncodeToString(all.Sum(nil)[:8])
	return nil
}

func (s *Site) add(name string, body []byte) { s.files[name] = newFile(name, body) }

// joinStyles returns the design system followed by the rules of pages.
func (s *Site) joinStyles() []byte {
	var out []byte
	for _, pattern := range []string{"css/*.css", "css/pages/*.css"} {
		for _, name := range slices.Sorted(maps.Keys(s.files)) {
			if ok, _ := path.Match(pattern, name); ok { // the patterns are valid
				out = append(out, s.files[name].body...)
			}
		}
	}
	return out
}

// fillIndex executes the template index.html.
func (s *Site) fillIndex(c Config) ([]byte, error) {
	page, err := template.ParseFS(app, "app/index.html")
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = page.Execute(&out, struct {
		Config
		Base, Styles, Script string
	}{c, static + s.version + "/", styles, s.script})
	return out.Bytes(), err
}

// ServeHTTP implements http.Handler. The path of the request begins with Root.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", s.policy)
	if strings.HasPrefix(r.URL.Path, terminal) {
		h.Set("Content-Security-Policy", s.terminal)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // a URL can contain a one-time token or the code of a login
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if s.disabled {
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		fmt.Fprintln(w, disabledPage) // the reader is gone when this fails
		return
	}
	name, isFile := strings.CutPrefix(r.URL.Path, static)
	if !isFile {
		h.Set("Cache-Control", "no-cache")
		s.index.serve(w, r)
		return
	}
	version, name, _ := strings.Cut(name, "/")
	f := s.files[name]
	if version != s.version || f == nil || name == "index.html" {
		h.Set("Cache-Control", "no-store")
		http.Error(w, "not a file of this version of the web UI: reload the page", http.StatusNotFound)
		return
	}
	h.Set("Cache-Control", forGood)
	f.serve(w, r)
}

const disabledPage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>open-nomad</title>
<h1>The web UI is disabled</h1>
<p>Set <code>ui { enabled = true }</code> in the configuration of this agent.</p></html>`
