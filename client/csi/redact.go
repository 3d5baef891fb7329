package csi

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// mask stands for a secret or mount flag in a text.
const mask = "[REDACTED]"

// shortSecret is the length below which a value is replaced only where it is a word. Many texts contain it by chance.
const shortSecret = 4

// hidden are the values that must not appear in errors, the longest first.
type hidden []string

// hide returns the values of secrets and mount flags. Plugins also write them quoted, escaped, encoded, or a line at a time.
func hide(secrets csi.Secrets, options *nomad.CSIMountOptions) hidden {
	var h hidden
	for _, value := range secrets {
		h.add(value)
		h.addParts(strings.Split(value, "\n"), shortSecret)
	}
	if options != nil {
		for _, flag := range options.MountFlags {
			h.add(flag)
			h.addParts(strings.Split(flag, ","), 1)
		}
	}
	slices.SortFunc(h, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	return slices.Compact(h)
}

// addParts adds parts of a value that have at least some bytes, and what follows their first "=".
func (h *hidden) addParts(parts []string, least int) {
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if len(part) < least {
			continue
		}
		h.add(part)
		if _, value, found := strings.Cut(part, "="); found && len(value) >= shortSecret {
			h.add(value)
		}
	}
}

// add adds the forms of a value in which programs print it.
func (h *hidden) add(value string) {
	if strings.TrimSpace(value) == "" {
		return
	}
	quoted := strconv.Quote(value)
	*h = append(*h, value, quoted[1:len(quoted)-1], url.QueryEscape(value), url.PathEscape(value))
	if len(value) >= shortSecret {
		*h = append(*h, base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)))
	}
}

// redact replaces the hidden values in a text.
func (h hidden) redact(text string) string {
	for _, value := range h {
		if len(value) < shortSecret {
			text = replaceWord(text, value)
			continue
		}
		text = strings.ReplaceAll(text, value, mask)
	}
	return text
}

// replaceWord replaces a value in a text where no letter or digit precedes or follows it.
func replaceWord(text, value string) string {
	var out strings.Builder
	rest := text
	for {
		i := strings.Index(rest, value)
		if i < 0 {
			break
		}
		end := i + len(value)
		before := i == 0 && out.Len() == 0 || i > 0 && !wordByte(rest[i-1])
		if before && (end == len(rest) || !wordByte(rest[end])) {
			out.WriteString(rest[:i] + mask)
		} else {
			out.WriteString(rest[:end])
		}
		rest = rest[end:]
	}
	return out.String() + rest
}

func wordByte(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}
