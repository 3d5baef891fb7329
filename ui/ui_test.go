package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

func site(t *testing.T, c Config) *Site {
	t.Helper()
	if c.Policy.Default == nil {
		c.Policy = Strict()
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(s *Site, path string, header ...string) *http.Response {
	req := httptest.NewRequest("GET", path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, req)
	return rec.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every path below /ui/ is the index, so that a page can be reloaded. Every file that it names exists,
// and all of them together are small and few.
func TestIndex(t *testing.T) {
	s := site(t, Config{})
	first := get(s, "/ui/")
	index := body(t, first)
	for _, path := range []string{"/ui/jobs", "/ui/jobs/a%2Fb@default/versions", "/ui/no-such-page"} {
		if r := get(s, path); r.StatusCode != 200 || body(t, r) != index || r.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: status %d, Cache-Control %q", path, r.StatusCode, r.Header.Get("Cache-Control"))
		}
	}
	if r := get(s, "/ui/jobs", "If-None-Match", first.Header.Get("ETag")); r.StatusCode != 304 {
		t.Errorf("known index: status %d", r.StatusCode)
	}
	names, size := []string{}, 0
	for _, f := range regexp.MustCompile(`(?:src|href)="(/ui/static/[^"]+)"`).FindAllStringSubmatch(index, -1) {
		r := get(s, f[1], "Accept-Encoding", "gzip")
		if r.StatusCode != 200 || r.Header.Get("Cache-Control") != forGood ||
			strings.HasPrefix(r.Header.Get("Content-Type"), "application/octet") {
			t.Errorf("%s: status %d, headers %v", f[1], r.StatusCode, r.Header)
		}
		names = append(names, strings.TrimPrefix(f[1], static+s.version+"/"))
		size += len(body(t, r))
	}
	if got, want := strings.Join(names, " "), "icon.svg styles.css theme.js "+s.script; got != want {
		t.Errorf("the index names %s, want %s", got, want)
	}
	if size > 128<<10 {
		t.Errorf("the files of the index have %d bytes", size)
	}
	if inline := regexp.MustCompile(`<style|style=|<script>|\son[a-z]+=`).FindString(index); inline != "" {
		t.Errorf("the index has inline code: %q", inline)
	}
}

// The values of the configuration are text in the index, never markup.
func TestIndexEscapes(t *testing.T) {
	s := site(t, Config{Label: Label{Text: `"><script>alert(1)</script>`}, ConsulURL: `https://x/"onclick="y`})
	index := body(t, get(s, "/ui/"))
	if strings.Contains(index, "<script>alert") || strings.Contains(index, `"onclick`) || !strings.Contains(index, "data-label=") {
		t.Errorf("the label is not escaped:\n%s", index)
	}
}

// The bundle is compressed when it is built, other files at their first request.
func TestCompressedFiles(t *testing.T) {
	s := site(t, Config{})
	text := []byte("import './x.js'")
	var err error
	if s.files["built.js"], err = newPacked("built.js", pack(text)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"built.js", "main.js", s.script} {
		name := static + s.version + "/" + name
		plain, packed := get(s, name), get(s, name, "Accept-Encoding", "br, gzip;q=0.5")
		z, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil || string(text) != body(t, plain) || plain.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: the compressed file differs: %v", name, err)
		}
	}
	if _, err := newPacked("built.js", text); err == nil {
		t.Error("a bundle that is not compressed is accepted")
	}
}

func TestFiles(t *testing.T) {
	s := site(t, Config{})
	main := static + s.version + "/main.js"
	plain := get(s, main)
	packed := get(s, main, "Accept-Encoding", "br, gzip;q=0.5")
	if plain.Header.Get("ETag") == packed.Header.Get("ETag") {
		t.Error("both encodings have the same ETag")
	}
	if r := get(s, main, "If-None-Match", plain.Header.Get("ETag")); r.StatusCode != 304 {
		t.Errorf("known file: status %d", r.StatusCode)
	}
	if r := get(s, main, "Accept-Encoding", "gzip;q=0"); r.Header.Get("Content-Encoding") != "" {
		t.Error("gzip was refused and is used")
	}
	for _, path := range []string{static + "0000000000000000/main.js", static + s.version + "/none.js", static + s.version + "/../doc.go",
		static + s.version + "/index.html", static} {
		if r := get(s, path); r.StatusCode != 404 {
			t.Errorf("%s: status %d", path, r.StatusCode)
		}
	}
}

func TestHeaders(t *testing.T) {
	want := "default-src 'none'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; img-src 'self' data:; script-src 'self'; style-src 'self'; base-uri 'none'"
	for _, s := range []*Site{site(t, Config{}), site(t, Config{Disabled: true})} {
		for _, path := range []string{"/ui/", "/ui/jobs", static + s.version + "/main.js", static + "none"} {
			h := get(s, path).Header
			if h.Get("Content-Security-Policy") != want || h.Get("X-Content-Type-Options") != "nosniff" ||
				h.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s: %v", path, h)
			}
		}
	}
	loose := strings.Replace(want, "style-src 'self'", "style-src 'self' 'unsafe-inline'", 1)
	if got := get(site(t, Config{}), "/ui/exec/web/server").Header.Get("Content-Security-Policy"); got != loose {
		t.Errorf("the policy of a terminal is %q, want %q", got, loose)
	}
	if text := body(t, get(site(t, Config{Disabled: true}), "/ui/jobs")); !strings.Contains(text, "disabled") ||
		strings.Contains(text, "script") {
		t.Errorf("the page of a disabled UI:\n%s", text)
	}
}

// Without sources, no form and no frame is allowed: default-src does not apply to these.
func TestPolicyWithoutSources(t *testing.T) {
	p := Strict()
	p.FormAction, p.FrameAncestors, p.Img = nil, []string{}, nil
	if got := p.String(); got != "default-src 'none'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; script-src 'self'; style-src 'self'; base-uri 'none'" {
		t.Errorf("the policy is %q", got)
	}
}

func TestFaults(t *testing.T) {
	bad := Config{Policy: Strict(), Label: Label{Background: "red;}", Color: "url(x)"}, ConsulURL: "javascript:alert(1)",
		VaultURL: "vault.example"}
	bad.Policy.Script = []string{"'self'", "*; report-uri /x"}
	bad.Policy.Img = []string{"'self',data:"}
	got := []string{}
	for _, f := range bad.Faults() {
		got = append(got, f.Key)
	}
	want := "ui.content_security_policy.img_src ui.content_security_policy.script_src ui.label.background_color ui.label.text_color ui.consul.ui_url ui.vault.ui_url"
	if strings.Join(got, " ") != want {
		t.Errorf("faults of %v, want %s", got, want)
	}
	if _, err := New(bad); err == nil {
		t.Error("New accepts an invalid configuration")
	}
	good := Config{Policy: Strict(), Label: Label{Background: "#1b6e5f", Color: "rgb(255, 255, 255)"},
		ConsulURL: "https://consul.example/ui", VaultURL: "http://127.0.0.1:8200"}
	good.Policy.Connect = []string{"*", "wss://x.example:1"}
	if f := good.Faults(); f != nil {
		t.Errorf("faults of a valid configuration: %v", f)
	}
}

// The vendored libraries are those of the lock file: make ui-vendor compares them with the packages.
func TestVendorLock(t *testing.T) {
	lock, err := os.ReadFile("vendor.lock")
	if err != nil {
		t.Fatal(err)
	}
	locked := map[string]bool{}
	for line := range strings.Lines(string(lock)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(f) != 6 {
			continue
		}
		name, ok := strings.CutPrefix(f[3], "ui/")
		if !ok {
			continue // data of tests, which is fetched when they run
		}
		text, err := app.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != f[5] {
			t.Errorf("%s differs from vendor.lock", name)
		}
		locked[strings.TrimPrefix(name, "app/")] = true
	}
	for name := range site(t, Config{}).files {
		if strings.HasPrefix(name, "vendor/") && !locked[name] {
			t.Errorf("%s is not in vendor.lock", name)
		}
	}
}

// Pages never insert markup, evaluate text or load from other hosts.
func TestSources(t *testing.T) {
	forbidden := regexp.MustCompile(`dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://|javascript:`)
	for name, f := range site(t, Config{}).files {
		if strings.HasPrefix(name, "vendor/") || name == bundled || strings.HasSuffix(name, ".svg") {
			continue // not our source
		}
		for n, line := range bytes.Split(f.body, []byte("\n")) {
			if m := forbidden.Find(line); m != nil {
				t.Errorf("%s:%d: %s", name, n+1, m)
			}
		}
	}
}
