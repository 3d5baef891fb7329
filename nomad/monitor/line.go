package monitor

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// ModuleKey is the key of the attribute with the part of the agent that logs a record, such as client. It is in front of
// the message. Without it the module is "agent".
const ModuleKey = "module"

// lines writes each record as one line. The lines have the format of Nomad 2.0, which collectors of logs parse:
//
//	2006-01-02T15:04:05.000Z [INFO]  module: message: key=value key="two words"
//	{"@level":"info","@message":"message","@module":"module","@timestamp":"2006-01-02T15:04:05.000000Z","key":"value"}
type lines struct {
	format Format
	out    *shared
	module string
	group  string // prefix of the keys
	attrs  []field
}

// shared is the writer that handlers share.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

// field is an attribute with its groups in the key.
type field struct {
	key   string
	value slog.Value
}

// Handler returns a handler that writes each record as one line with one call of w.Write.
func (f Format) Handler(w io.Writer) slog.Handler {
	return &lines{format: f, out: &shared{w: w}, module: "agent"}
}

// Enabled implements slog.Handler.
func (h *lines) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.format.Level.Level()
}

// WithAttrs implements slog.Handler.
func (h *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		out.add(a)
	}
	return &out
}

// WithGroup implements slog.Handler.
func (h *lines) WithGroup(name string) slog.Handler {
	out := *h
	if name != "" {
		out.group += name + "."
	}
	return &out
}

// add adds an attribute, or the attributes of a group.
func (h *lines) add(a slog.Attr) {
	v := a.Value.Resolve()
	switch {
	case v.Kind() == slog.KindGroup:
		inner := *h
		if a.Key != "" {
			inner.group += a.Key + "."
		}
		for _, member := range v.Group() {
			inner.add(member)
		}
		h.attrs = inner.attrs
	case a.Key == ModuleKey && h.group == "":
		h.module = v.String()
	case a.Key != "":
		h.attrs = append(h.attrs, field{h.group + a.Key, v})
	}
}

// Handle implements slog.Handler.
func (h *lines) Handle(_ context.Context, rec slog.Record) error {
	all := *h
	all.attrs = slices.Clip(h.attrs)
	rec.Attrs(func(a slog.Attr) bool { all.add(a); return true })
	caller := ""
	if h.format.Location && rec.PC != 0 {
		frame, _ := runtime.CallersFrames([]uintptr{rec.PC}).Next()
		caller = filepath.Join(filepath.Base(filepath.Dir(frame.File)), filepath.Base(frame.File)) + ":" + strconv.Itoa(frame.Line)
	}
	line := all.text
	if h.format.JSON {
		line = all.json
	}
	b := line(rec, caller)
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := h.out.w.Write(b)
	return err
}

// text returns the line of a record as text.
func (h *lines) text(rec slog.Record, caller string) []byte {
	b := make([]byte, 0, 256)
	if !rec.Time.IsZero() {
		b = append(rec.Time.AppendFormat(b, "2006-01-02T15:04:05.000Z07:00"), ' ')
	}
	b = fmt.Appendf(b, "%-7s ", "["+levelName(rec.Level)+"]")
	if caller != "" {
		b = append(append(b, caller...), ": "...)
	}
	b = append(append(b, h.module...), ": "...)
	if strings.ContainsFunc(rec.Message, unicode.IsControl) {
		b = strconv.AppendQuote(b, rec.Message)
	} else {
		b = append(b, rec.Message...)
	}
	for i, f := range h.attrs {
		if i == 0 {
			b = append(b, ':')
		}
		b = append(append(append(b, ' '), word(f.key)...), '=')
		b = append(b, word(text(f.value))...)
	}
	return append(b, '\n')
}

// word quotes a text that is not a single printable word.
func word(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r == '"' || r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// text returns a value as text.
func text(v slog.Value) string {
	switch v.Kind() {
	case slog.KindTime:
		return v.Time().Format(time.RFC3339Nano)
	case slog.KindAny:
		if m, ok := v.Any().(encoding.TextMarshaler); ok {
			if b, err := m.MarshalText(); err == nil {
				return string(b)
			}
		}
		if b, ok := v.Any().([]byte); ok {
			return string(b)
		}
		return fmt.Sprintf("%+v", v.Any())
	}
	return v.String()
}

// json returns the line of a record as a JSON object.
func (h *lines) json(rec slog.Record, caller string) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	put := func(key string, v any) {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(encoded(key))
		b.WriteByte(':')
		b.Write(encoded(v))
	}
	put("@level", strings.ToLower(levelName(rec.Level)))
	put("@message", rec.Message)
	put("@module", h.module)
	if caller != "" {
		put("@caller", caller)
	}
	if !rec.Time.IsZero() {
		put("@timestamp", rec.Time.Format("2006-01-02T15:04:05.000000Z07:00"))
	}
	for _, f := range h.attrs {
		put(f.key, plain(f.value))
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// plain returns a value that has the same meaning as JSON.
func plain(v slog.Value) any {
	switch v.Kind() {
	case slog.KindDuration, slog.KindTime:
		return text(v)
	case slog.KindAny:
		switch value := v.Any().(type) {
		case json.Marshaler:
			return value
		case error:
			return value.Error()
		case fmt.Stringer:
			return value.String()
		}
	}
	return v.Any()
}

// encoded encodes a value. A value without a form in JSON is a string.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		b, err = json.Marshal(fmt.Sprintf("%+v", v))
	}
	if err != nil {
		return []byte(`"!ERROR"`)
	}
	return b
}

// levelName returns the name of a level.
func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "TRACE"
	case l < slog.LevelInfo:
		return "DEBUG"
	case l < slog.LevelWarn:
		return "INFO"
	case l < slog.LevelError:
		return "WARN"
	}
	return "ERROR"
}
