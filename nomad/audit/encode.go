package audit

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/nomad"
)

// The maximum number of bytes of caller-supplied texts, and of items in a list.
const (
	maxText  = 256
	maxPath  = 1024
	maxError = 1024
	maxItems = 64
)

// version is the version of the line format.
const version = 1

// signed matches what looks like a signed token.
var signed = regexp.MustCompile(`eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`)

// Node is the agent that writes the log.
type Node struct{ Name, Region, Address string }

// line appends the event to b as one line. meta is the encoded node.
func (e *Event) line(b []byte, now time.Time, meta []byte) []byte {
	b = append(b, `{"created_at":"`...)
	b = now.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","event_type":"audit","payload":{"id":"`...)
	b = append(b, nomad.NewID()...)
	b = append(b, `","stage":"`...)
	b = append(b, e.Stage...)
	b = append(b, `","type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","timestamp":"`...)
	b = now.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","version":`...)
	b = strconv.AppendInt(b, version, 10)
	b = append(b, `,"auth":`...)
	b = e.Auth.json(b)
	b = append(b, `,"request":`...)
	b = e.Request.json(b, meta)
	if e.Issued != nil {
		b = append(b, `,"identity":`...)
		b = e.Issued.json(b)
	}
	if e.Response != nil {
		b = append(b, `,"response":{"status_code":`...)
		b = strconv.AppendInt(b, int64(e.Response.Status), 10)
		b = field(b, "error", e.Response.Error, maxError)
		b = append(b, '}')
	}
	return append(b, "}}\n"...)
}

func (a *Auth) json(b []byte) []byte {
	b = append(b, `{"accessor_id":`...)
	b = text(b, a.AccessorID, maxText)
	b = append(b, `,"name":`...)
	b = text(b, a.Name, maxText)
	b = append(b, `,"kind":`...)
	b = text(b, a.Kind, maxText)
	b = append(b, `,"policies":`...)
	b = list(b, a.Policies)
	if len(a.Roles) > 0 {
		b = append(b, `,"roles":`...)
		b = list(b, a.Roles)
	}
	b = field(b, "alloc_id", a.AllocID, maxText)
	return append(b, '}')
}

func (r *Request) json(b, meta []byte) []byte {
	b = append(b, `{"id":`...)
	b = text(b, r.ID, maxText)
	b = append(b, `,"operation":`...)
	b = text(b, r.Operation, maxText)
	b = append(b, `,"endpoint":`...)
	b = text(b, r.Endpoint, maxPath)
	b = field(b, "object", r.Object, maxPath)
	if r.Namespace != "" {
		b = append(b, `,"namespace":{"id":`...)
		b = text(b, r.Namespace, maxText)
		b = append(b, '}')
	}
	b = append(b, `,"request_meta":{"remote_address":`...)
	b = text(b, r.RemoteAddress, maxText)
	b = append(b, `,"user_agent":`...)
	b = text(b, r.UserAgent, maxText)
	if r.Forwarded {
		b = append(b, `,"forwarded":true`...)
	}
	b = append(b, `},"node_meta":`...)
	b = append(b, meta...)
	return append(b, '}')
}

func (i *Issued) json(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = text(b, i.ID, maxText)
	b = append(b, `,"subject":`...)
	b = text(b, i.Subject, maxPath)
	b = append(b, `,"audience":`...)
	b = list(b, i.Audience)
	b = append(b, `,"kid":`...)
	b = text(b, i.KeyID, maxText)
	if i.TTL > 0 {
		b = field(b, "ttl", i.TTL.String(), maxText)
	}
	b = field(b, "alloc_id", i.AllocID, maxText)
	return append(b, '}')
}

func (n Node) json() []byte {
	b := append([]byte(nil), `{"name":`...)
	b = text(b, n.Name, maxText)
	b = append(b, `,"region":`...)
	b = text(b, n.Region, maxText)
	b = append(b, `,"ip":`...)
	b = text(b, n.Address, maxText)
	return append(b, '}')
}

// field appends a key that is not the first, unless its value is empty.
func field(b []byte, key, value string, limit int) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	return text(b, value, limit)
}

func list(b []byte, items []string) []byte {
	b = append(b, '[')
	for i, item := range items[:min(len(items), maxItems)] {
		if i > 0 {
			b = append(b, ',')
		}
		b = text(b, item, maxText)
	}
	return append(b, ']')
}

// text appends a string of at most limit bytes in ASCII, without what looks like a signed
// token. The string may come from a caller. It must not inject lines into the log or control
// characters into a terminal.
func text(b []byte, s string, limit int) []byte {
	if s = s[:min(len(s), 8*limit)]; strings.Contains(s, "eyJ") {
		s = signed.ReplaceAllLiteralString(s, "[token]")
	}
	b = append(b, '"')
	cut := len(s) > limit
	if cut {
		s = s[:limit]
	}
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf-1 {
			if c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		i += n
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			b = escape(escape(b, high), low)
			continue
		}
		b = escape(b, r)
	}
	if cut {
		b = append(b, "..."...)
	}
	return append(b, '"')
}

func escape(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
