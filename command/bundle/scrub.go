package bundle

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// redacted replaces a secret.
const redacted = "<redacted>"

// hidden are the JSON fields whose values are removed: environments, templates, driver configurations,
// variables, arguments, mount flags and payloads can contain secrets of any form.
var hidden = []string{"Args", "Body", "Env", "Environment", "EmbeddedTmpl", "Items", "GetterOptions", "Header", "Payload",
	"Config", "Meta", "Source", "Secrets", "SignedIdentities", "LeaderACL", "WrappedKeys", "MountFlags", "Parameters", "Context"}

// secretWord matches the JSON fields whose strings and lists are removed, whatever the object is.
var secretWord = pattern.Lazy(`(?i)(token|secret|passw|credential|private_?key|encrypt|auth$)`)

// patterns match secrets in any text: signed tokens, private keys, and values in the style of a
// flag, a header or a URL.
var patterns = []struct {
	match func() *regexp.Regexp
	by    string
}{
	{pattern.Lazy(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*`), redacted},
	{pattern.Lazy(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), redacted},
	{pattern.Lazy(`(?i)((?:x-(?:nomad|consul|vault)-token|x-nomad-csi-secrets|authorization)["']?[:=]\s*["']?(?:bearer\s+)?)[^\s"']+`), "${1}" + redacted},
	{pattern.Lazy(`(?i)([\w-]*(?:token|secret|password|passwd|encrypt|sshkey|signature)[\w-]*=)[^\s&"']+`), "${1}" + redacted},
	{pattern.Lazy(`(://)[^/\s:@"]+:[^/\s@"]+@`), "${1}" + redacted + "@"},
}

// scrubber removes secrets from captured text.
type scrubber struct{ secrets []string }

// newScrubber returns a scrubber that also removes the secrets of the caller, for the agents and others.
func newScrubber(cfg *api.Config, others ...string) *scrubber {
	s := &scrubber{}
	add := func(secret string) {
		if len(secret) >= 4 {
			s.secrets = append(s.secrets, secret)
		}
	}
	add(cfg.SecretID)
	if cfg.HttpAuth != nil {
		add(cfg.HttpAuth.Password)
	}
	for _, secret := range others {
		add(secret)
	}
	return s
}

// text removes secrets from a line or a text.
func (s *scrubber) text(in string) string {
	for _, secret := range s.secrets {
		in = strings.ReplaceAll(in, secret, redacted)
	}
	for _, p := range patterns {
		in = p.match().ReplaceAllString(in, p.by)
	}
	return in
}

// json removes secrets from a JSON value. It returns ok false if in is not JSON.
func (s *scrubber) json(in []byte) (out []byte, ok bool) {
	var v any
	d := json.NewDecoder(bytes.NewReader(in))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, false
	}
	out, err := jsonOf(s.value(v))
	return out, err == nil
}

// value returns a copy of a decoded JSON value without secrets.
func (s *scrubber) value(v any) any {
	switch v := v.(type) {
	case string:
		return s.text(v)
	case []any:
		for i := range v {
			v[i] = s.value(v[i])
		}
	case map[string]any:
		for name, field := range v {
			switch {
			case (slices.Contains(hidden, name) || strings.HasSuffix(name, "Headers")) && !isEvent(v, name):
				v[name] = blank(field)
			case secretWord().MatchString(name):
				v[name] = blankText(s.value(field))
			default:
				v[name] = s.value(field)
			}
		}
	}
	return v
}

// isEvent reports whether a field is the payload of an event, whose objects are cleaned themselves.
func isEvent(of map[string]any, name string) bool {
	_, object := of[name].(map[string]any)
	return name == "Payload" && object
}

// blank replaces all leaves but numbers, booleans and null.
func blank(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = blank(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = blank(v[name])
		}
	case string:
		return redacted
	}
	return v
}

// blankText replaces a string that is not empty, and the strings of a list.
func blankText(v any) any {
	switch v := v.(type) {
	case string:
		if v != "" {
			return redacted
		}
	case []any:
		for i := range v {
			v[i] = blankText(v[i])
		}
	}
	return v
}
