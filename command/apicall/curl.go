package apicall

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// secretHeaders are the headers whose values are not printed.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "X-Nomad-Token", "X-Nomad-Csi-Secrets", "Cookie", "Set-Cookie"}

// public returns the value of a header, or a placeholder for a secret.
func public(name, value string) string {
	if slices.Contains(secretHeaders, http.CanonicalHeaderKey(name)) {
		return "<redacted>"
	}
	return value
}

// curl returns a shell command that sends the request. The token and the password are references to
// NOMAD_TOKEN and NOMAD_HTTP_AUTH, whatever they were set by.
func curl(cfg *api.Config, req *http.Request, body bool) string {
	words := []string{"curl"}
	add := func(w ...string) { words = append(words, w...) }
	if req.Method != http.MethodGet {
		add("-X", quote(req.Method))
	}
	if cfg.HttpAuth != nil {
		add("-u", `"$NOMAD_HTTP_AUTH"`)
	}
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		switch {
		case name == "Authorization" && cfg.HttpAuth != nil: // -u sets it
		case name == "X-Nomad-Token":
			add("-H", `"X-Nomad-Token: $NOMAD_TOKEN"`)
		default:
			add("-H", quote(name+": "+public(name, req.Header.Get(name))))
		}
	}
	words = append(words, files(cfg.TLSConfig)...)
	if body {
		add("--data-binary", "@-")
	}
	if u, err := url.Parse(cfg.Address); err == nil && u.Scheme == "unix" {
		add("--unix-socket", quote(filepath.Join("/", u.Host, u.Path)))
	}
	add(quote(req.URL.String()))
	return strings.Join(words, " ")
}

// files returns the flags for the TLS files.
func files(t *api.TLSConfig) []string {
	var out []string
	if t == nil {
		return nil
	}
	for _, f := range []struct{ flag, value string }{{"--cacert", t.CACert}, {"--capath", t.CAPath}, {"--cert", t.ClientCert},
		{"--key", t.ClientKey}} {
		if f.value != "" {
			out = append(out, f.flag, quote(f.value))
		}
	}
	if t.Insecure {
		out = append(out, "--insecure")
	}
	return out
}

// quote returns a word of a shell.
func quote(s string) string {
	if plain := strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/.:-_@=") == ""; plain {
		return cmp.Or(s, "''")
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
