package term

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/ryanuber/columnize"
)

// shortID is how many characters of an ID are shown without -verbose.
const shortID = 8

// Detail is how much a command tells.
type Detail bool

// What is told without and with -verbose.
const (
	Short Detail = false
	Full  Detail = true
)

// ID returns an ID as it is shown: whole only in full detail.
func (d Detail) ID(id string) string {
	if d == Full || len(id) <= shortID {
		return id
	}
	return id[:shortID]
}

// Since returns a time as it is shown: how long ago it was, the time itself in full detail.
func (d Detail) Since(t time.Time) string {
	if d == Full {
		return Time(t)
	}
	return Ago(t, time.Now())
}

// UUIDPrefix drops an odd last digit of an ID's prefix: servers look IDs up by
// whole bytes.
func UUIDPrefix(p string) string {
	if n := len(strings.ReplaceAll(p, "-", "")); n%2 == 1 {
		return p[:len(p)-1]
	}
	return p
}

// Table lays out rows whose cells are separated by "|"; the first is the header.
func Table(rows []string) string {
	return columnize.Format(rows, &columnize.Config{Delim: "|", Glue: "  ", Empty: "<none>"})
}

// BlankTable is Table whose empty cells stay empty.
func BlankTable(rows []string) string {
	return columnize.Format(rows, &columnize.Config{Delim: "|", Glue: "  "})
}

// Pairs lays out "key|value" rows as "key = value".
func Pairs(rows []string) string {
	return columnize.Format(rows, &columnize.Config{Delim: "|", Glue: " = ", Empty: "<none>"})
}

// Cell makes a value fit into a table row. What a terminal would not print, such as the
// escape sequences in the ID of a job, is shown as an escaped character.
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

// Row joins values to a table row.
func Row(cells ...any) string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = Cell(c)
	}
	return strings.Join(out, "|")
}

// Time shows a time the way of RFC 3339, "N/A" when it is zero.
func Time(t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return "N/A"
	}
	return t.Local().Format(time.RFC3339)
}

// UnixNano shows a time given in nanoseconds since 1970.
func UnixNano(ns int64) string { return Time(time.Unix(0, ns)) }

// Ago shows how long before now a time was, as "3m5s ago".
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

// Duration shows the two largest units of d: "1mo3d", "2h5m", "42s", "350ms".
func Duration(d time.Duration) string {
	if d < time.Second {
		return d.Truncate(time.Millisecond).String()
	}
	units := []struct {
		name string
		size time.Duration
	}{{"y", 365 * 24 * time.Hour}, {"mo", 30 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
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

// Bytes shows a size in binary units, as "1.5 MiB".
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

// Formats are the flags -json and -t, which show the data instead of a table.
type Formats struct {
	json bool
	tmpl string
}

// Declare adds -json and -t to the flags of a command.
func (o *Formats) Declare(f *Flags) {
	f.BoolVar(&o.json, "json", false, "Print as JSON.")
	f.StringVar(&o.tmpl, "t", "", "Print with a Go `template`.")
}

// Always makes JSON what is printed without a flag.
func (o *Formats) Always() { o.json = o.tmpl == "" }

// Wanted says whether one of the flags was given.
func (o *Formats) Wanted() bool { return o.json || o.tmpl != "" }

// Print writes v as the flags say.
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

// NewFormats returns the formats that a command's own flags ask for.
func NewFormats(json bool, tmpl string) *Formats { return &Formats{json: json, tmpl: tmpl} }
