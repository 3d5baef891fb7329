package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// shortID is the length of an ID without -verbose.
const shortID = 8

// Detail is the level of detail of the output.
type Detail bool

// The levels of detail without and with -verbose.
const (
	Short Detail = false
	Full  Detail = true
)

// ID returns an ID, shortened unless d is Full.
func (d Detail) ID(id string) string {
	if d == Full || len(id) <= shortID {
		return id
	}
	return id[:shortID]
}

// Since formats a time as its age, or as the time itself if d is Full.
func (d Detail) Since(t time.Time) string {
	if d == Full {
		return Time(t)
	}
	return Ago(t, time.Now())
}

// UUIDPrefix drops the last digit of a prefix of odd length: the servers match prefixes by
// bytes.
func UUIDPrefix(p string) string {
	if n := len(strings.ReplaceAll(p, "-", "")); n%2 == 1 {
		return p[:len(p)-1]
	}
	return p
}

// Table formats rows as a table. Cells are separated by "|". The first row is the header.
func Table(rows []string) string {
	return columns(rows, "  ", "<none>")
}

// BlankTable is Table without the text <none> for empty cells.
func BlankTable(rows []string) string {
	return columns(rows, "  ", "")
}

// Pairs formats "key|value" rows as "key = value".
func Pairs(rows []string) string {
	return columns(rows, " = ", "<none>")
}

// Cell formats a value for a row. Characters that are not printable, such as escape
// sequences in the ID of a job, are escaped.
func Cell(v any) string {
	var b strings.Builder
	for _, r := range fmt.Sprint(v) {
		switch {
		case r == '|':
			b.WriteRune('¦')
		case r == '\n':
			b.WriteByte(' ')
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// Row joins values to a row.
func Row(cells ...any) string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = Cell(c)
	}
	return strings.Join(out, "|")
}

// Time formats a time by RFC 3339, or as "N/A" if it is zero.
func Time(t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return "N/A"
	}
	return t.Local().Format(time.RFC3339)
}

// UnixNano formats a time in nanoseconds since 1970.
func UnixNano(ns int64) string { return Time(time.Unix(0, ns)) }

// Ago formats the time from t to now, such as "3m5s ago".
func Ago(t, now time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return ""
	}
	d := now.Sub(t)
	if d < 0 {
		d = 0
	}
	return Duration(d) + " ago"
}

// Duration formats the two largest units of d: "1mo3d", "2h5m", "42s", "350ms".
func Duration(d time.Duration) string {
	if d < time.Second {
		return d.Truncate(time.Millisecond).String()
	}
	units := []struct {
		name string
		size time.Duration
	}{{"y", 365 * 24 * time.Hour}, {"mo", 30 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s",
		time.Second}}
	var b strings.Builder
	shown := 0
	for _, u := range units {
		n := d / u.size
		if shown == 0 && n == 0 {
			continue
		}
		if n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
		}
		d -= n * u.size
		if shown++; shown == 2 {
			break
		}
	}
	return b.String()
}

// Bytes formats a size in binary units, such as "1.5 MiB".
func Bytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, units := float64(n), "KMGTPE"
	i := -1
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	s := strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	return s + " " + units[i:i+1] + "iB"
}

// Formats holds the flags -json and -t, which print the data instead of a table.
type Formats struct {
	json bool
	tmpl string
}

// Declare declares -json and -t.
func (o *Formats) Declare(f *Flags) {
	f.BoolVar(&o.json, "json", false, "Print as JSON.")
	f.StringVar(&o.tmpl, "t", "", "Print with a Go `template`.")
}

// Always makes JSON the default.
func (o *Formats) Always() { o.json = o.tmpl == "" }

// Wanted reports whether one of the flags is set.
func (o *Formats) Wanted() bool { return o.json || o.tmpl != "" }

// Print writes v in the format of the flags.
func (o *Formats) Print(e *Env, v any) error {
	if o.json && o.tmpl != "" {
		return fmt.Errorf("Both json and template formatting are not allowed")
	}
	if o.json {
		return e.JSON(v)
	}
	t, err := template.New("format").Parse(o.tmpl)
	if err != nil {
		return fmt.Errorf("Error parsing template: %w", err)
	}
	if err := t.Execute(e.Out, v); err != nil {
		return fmt.Errorf("Error executing template: %w", err)
	}
	e.Println()
	return nil
}

// JSON writes v as indented JSON.
func (e *Env) JSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("Error formatting as JSON: %w", err)
	}
	_, err := e.Out.Write(b.Bytes())
	return err
}

// NewFormats returns formats for flags that a command declares itself.
func NewFormats(json bool, tmpl string) *Formats { return &Formats{json: json, tmpl: tmpl} }
