package ui

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

var update = flag.Bool("update", false, "write the bundle of app/")

// The bundle is that of the sources in app/.
func TestBundle(t *testing.T) {
	for name, want := range bundle(t) {
		if *update {
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of the sources (%v): run make ui-bundle", name, err)
		}
	}
}

// bundle joins the modules and the style sheets of app/ into one file each, by name.
func bundle(t *testing.T) map[string][]byte {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	common := api.BuildOptions{AbsWorkingDir: dir, Bundle: true, Charset: api.CharsetUTF8, LegalComments: api.LegalCommentsInline,
		LogLevel: api.LogLevelSilent}

	script := common
	script.EntryPoints = []string{"app/main.js"}
	script.Outfile = "app/bundle/main.js"
	script.Format = api.FormatESModule
	// The terminal is loaded as it is, because xterm.js is larger than all else.
	script.External = []string{filepath.Join(dir, "app/pages/exec/terminal.js")}

	style := common
	style.Stdin = &api.StdinOptions{Contents: imports(t), ResolveDir: dir, Loader: api.LoaderCSS}
	style.Outfile = "app/bundle/main.css"

	out := map[string][]byte{}
	for _, options := range []api.BuildOptions{script, style} {
		result := api.Build(options)
		for _, m := range append(result.Errors, result.Warnings...) {
			t.Fatalf("%s:%d: %s", m.Location.File, m.Location.Line, m.Text)
		}
		for _, f := range result.OutputFiles {
			out[options.Outfile] = f.Contents
		}
	}
	return out
}

// imports is a style sheet that imports those of app/css: the design system before the rules of pages.
func imports(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, pattern := range []string{"app/css/*.css", "app/css/pages/*.css"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no style sheets match %s: %v", pattern, err)
		}
		for _, name := range names {
			fmt.Fprintf(&out, "@import \"./%s\";\n", name)
		}
	}
	return out.String()
}
