package csi

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// hidden replaces a secret in a text.
const hidden = "[REDACTED]"

// shortest is the length in bytes below which a value is replaced only where it is a word. Many texts contain it by chance.
const shortest = 4

// Hide returns a text of a plugin without the values of the secrets, and without mount flags, which may contain passwords.
// Plugins also write them quoted, escaped, encoded, or a line at a time.
func Hide(text string, secrets Secrets, flags []string) string {
	var v values
	for _, secret := range secrets {
		v.add(secret)
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) >= shortest {
				v.add(line)
			}
		}
	}
	for _, flag := range flags {
		v.add(flag)
		for option := range strings.SplitSeq(flag, ",") {
			v.add(option)
			_, value, _ := strings.Cut(option, "=")
			v.add(value)
		}
	}
	slices.SortFunc(v, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may contain another
	for _, value := range v {
		if len(value) < shortest {
			text = replaceWord(text, value)
			continue
		}
		text = strings.ReplaceAll(text, value, hidden)
	}
	return text
}

// values are texts to replace.
type values []string

// add adds the forms of a value in which programs print it.
func (v *values) add(value string) {
	value = strings.TrimSpace(value)
	if value == "" {
		return
	}
	quoted := strconv.Quote(value)
	*v = append(*v, value, quoted[1:len(quoted)-1], url.QueryEscape(value), url.PathEscape(value))
	if len(value) >= shortest {
		*v = append(*v, base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)))
	}
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
			out.WriteString(rest[:i] + hidden)
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
