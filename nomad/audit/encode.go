package audit

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/internal/pattern"
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
var signed = pattern.Lazy(`eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`)

// Node is the agent that writes the log.
type Node struct{ Name, Region, Address string }

// line is the format of a line.
type line struct {
	CreatedAt time.Time `json:"created_at"`
	EventType string    `json:"event_type"`
	Payload   payload   `json:"payload"`
}

type payload struct {
	ID        string        `json:"id"`
	Stage     Stage         `json:"stage"`
	Type      Type          `json:"type"`
	Timestamp time.Time     `json:"timestamp"`
	Version   int           `json:"version"`
	Auth      authLine      `json:"auth"`
	Request   requestLine   `json:"request"`
	Identity  *issuedLine   `json:"identity,omitempty"`
	Response  *responseLine `json:"response,omitempty"`
}

type authLine struct {
	AccessorID string   `json:"accessor_id"`
	Name       string   `json:"name"`
	Kind       string   `json:"kind"`
	Policies   []string `json:"policies"`
	Roles      []string `json:"roles,omitempty"`
	AllocID    string   `json:"alloc_id,omitempty"`
}

type requestLine struct {
	ID        string         `json:"id"`
	Operation string         `json:"operation"`
	Endpoint  string         `json:"endpoint"`
	Object    string         `json:"object,omitempty"`
	Namespace *namespaceLine `json:"namespace,omitempty"`
	Meta      metaLine       `json:"request_meta"`
	Node      nodeLine       `json:"node_meta"`
}

type namespaceLine struct {
	ID string `json:"id"`
}

type metaLine struct {
	RemoteAddress string `json:"remote_address"`
	UserAgent     string `json:"user_agent"`
	Forwarded     bool   `json:"forwarded,omitempty"`
}

type nodeLine struct {
	Name    string `json:"name"`
	Region  string `json:"region"`
	Address string `json:"ip"`
}

type issuedLine struct {
	ID       string   `json:"id"`
	Subject  string   `json:"subject"`
	Audience []string `json:"audience"`
	KeyID    string   `json:"kid"`
	TTL      string   `json:"ttl,omitempty"`
	AllocID  string   `json:"alloc_id,omitempty"`
}

type responseLine struct {
	Status int    `json:"status_code"`
	Error  string `json:"error,omitempty"`
}

// line appends the event to b as one line.
func (e *Event) line(b []byte, now time.Time, node nodeLine) []byte {
	r := &e.Request
	l := line{CreatedAt: now, EventType: "audit", Payload: payload{
		ID: nomad.NewID(), Stage: e.Stage, Type: e.Type, Timestamp: now, Version: version,
		Auth: authLine{AccessorID: bounded(e.Auth.AccessorID, maxText), Name: bounded(e.Auth.Name, maxText), Kind: bounded(e.Auth.Kind, maxText),
			Policies: boundedList(e.Auth.Policies), Roles: boundedList(e.Auth.Roles), AllocID: bounded(e.Auth.AllocID, maxText)},
		Request: requestLine{ID: bounded(r.ID, maxText), Operation: bounded(r.Operation, maxText), Endpoint: bounded(r.Endpoint, maxPath),
			Object: bounded(r.Object, maxPath), Node: node,
			Meta: metaLine{bounded(r.RemoteAddress, maxText), bounded(r.UserAgent, maxText), r.Forwarded}},
	}}
	if r.Namespace != "" {
		l.Payload.Request.Namespace = &namespaceLine{bounded(r.Namespace, maxText)}
	}
	if e.Response != nil {
		l.Payload.Response = &responseLine{e.Response.Status, bounded(e.Response.Error, maxError)}
	}
	if i := e.Issued; i != nil {
		l.Payload.Identity = &issuedLine{ID: bounded(i.ID, maxText), Subject: bounded(i.Subject, maxPath), Audience: boundedList(i.Audience),
			KeyID: bounded(i.KeyID, maxText), AllocID: bounded(i.AllocID, maxText)}
		if i.TTL > 0 {
			l.Payload.Identity.TTL = i.TTL.String()
		}
	}
	return append(encode(b, l), '\n')
}

func (n Node) line() nodeLine {
	return nodeLine{bounded(n.Name, maxText), bounded(n.Region, maxText), bounded(n.Address, maxText)}
}

// bounded returns at most limit bytes of a string, without what looks like a signed token.
func bounded(s string, limit int) string {
	if s = s[:min(len(s), 8*limit)]; strings.Contains(s, "eyJ") {
		s = signed().ReplaceAllLiteralString(s, "[token]")
	}
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

func boundedList(items []string) []string {
	out := []string{}
	for _, item := range items[:min(len(items), maxItems)] {
		out = append(out, bounded(item, maxText))
	}
	return out
}

// encode appends the JSON of v in ASCII. Its strings may come from a caller. They must not inject
// lines into the log or control characters into a terminal.
func encode(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("audit: bug: " + err.Error()) // v has strings and numbers only
	}
	// Other characters are in strings only, where an escape means the same.
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch high, low := utf16.EncodeRune(r); {
		case r < utf8.RuneSelf-1:
			b = append(b, byte(r))
		case high != utf8.RuneError:
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
		text = text[n:]
	}
	return b
}
