package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/cron"
)

// each calls Next n times and returns the results.
func each(t *testing.T, s *cron.Schedule, from string, n int) []string {
	t.Helper()
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for range n {
		at = s.Next(at)
		if at.IsZero() {
			return append(out, "never")
		}
		out = append(out, at.Format(time.RFC3339))
	}
	return out
}

func TestNext(t *testing.T) {
	for name, c := range map[string]struct {
		zone, specs, from string
		want              []string
	}{
		"five fields":        {"", "30 9 * * *", "2026-01-01T09:29:59Z", []string{"2026-01-01T09:30:00Z", "2026-01-02T09:30:00Z"}},
		"strictly later":     {"", "30 9 * * *", "2026-01-01T09:30:00Z", []string{"2026-01-02T09:30:00Z"}},
		"six fields, a year": {"", "0 0 1 1 * 2030", "2026-01-01T00:00:00Z", []string{"2030-01-01T00:00:00Z", "never"}},
		"seven fields":       {"", "*/20 * * * * * *", "2026-01-01T00:00:05Z", []string{"2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z"}},
		"more are ignored":   {"", "*/20 * * * * * * 7 8", "2026-01-01T00:00:05Z", []string{"2026-01-01T00:00:20Z"}},
		"a step from": {"", "50/5 * * * *", "2026-01-01T00:00:00Z",
			[]string{"2026-01-01T00:50:00Z", "2026-01-01T00:55:00Z", "2026-01-01T01:50:00Z"}},
		"names":       {"", "0 0 * FEB monday", "2026-01-01T00:00:00Z", []string{"2026-02-02T00:00:00Z", "2026-02-09T00:00:00Z"}},
		"Sunday is 7": {"", "0 0 * * 7", "2026-01-01T00:00:00Z", []string{"2026-01-04T00:00:00Z"}},
		"a range to 7": {"", "0 0 * * 5-7", "2026-01-01T00:00:00Z",
			[]string{"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-09T00:00:00Z"}},
		"last Friday":      {"", "0 0 * * 5L", "2026-01-01T00:00:00Z", []string{"2026-01-30T00:00:00Z"}},
		"third Friday":     {"", "0 0 * * 5#3", "2026-01-01T00:00:00Z", []string{"2026-01-16T00:00:00Z"}},
		"last day":         {"", "0 0 L * *", "2026-02-01T00:00:00Z", []string{"2026-02-28T00:00:00Z"}},
		"last workday":     {"", "0 0 LW * *", "2026-02-01T00:00:00Z", []string{"2026-02-27T00:00:00Z"}},
		"nearest workday":  {"", "0 0 15W * *", "2026-02-01T00:00:00Z", []string{"2026-02-16T00:00:00Z"}},
		"@hourly":          {"", "@hourly", "2026-02-01T00:00:00Z", []string{"2026-02-01T01:00:00Z"}},
		"@daily":           {"", "@daily", "2026-02-01T00:00:00Z", []string{"2026-02-02T00:00:00Z"}},
		"@monthly":         {"", "@monthly", "2026-02-02T00:00:00Z", []string{"2026-03-01T00:00:00Z"}},
		"@annually":        {"", "@annually", "2026-02-02T00:00:00Z", []string{"2027-01-01T00:00:00Z"}},
		"@yearly":          {"", "@yearly", "2026-02-02T00:00:00Z", []string{"2027-01-01T00:00:00Z"}},
		"a question mark":  {"", "0 0 ? * 0", "2026-01-01T00:00:00Z", []string{"2026-01-04T00:00:00Z"}},
		"lists and ranges": {"", "5,10-11 0 1 jan,Mar *", "2026-01-01T00:10:00Z", []string{"2026-01-01T00:11:00Z", "2026-03-01T00:05:00Z"}},
		"@weekly":          {"", "@weekly", "2026-02-03T00:00:00Z", []string{"2026-02-08T00:00:00Z"}},
		"day or weekday":   {"", "0 0 13 * 5", "2026-02-07T00:00:00Z", []string{"2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"}},
		"29 February":      {"", "0 0 29 2 *", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z"}},
		"30 February":      {"", "0 0 30 2 *", "2026-01-01T00:00:00Z", []string{"never"}},
		"a past year":      {"", "0 0 1 1 * 2020", "2026-01-01T00:00:00Z", []string{"never"}},
		"a zone":           {"Europe/Berlin", "30 9 * * *", "2026-07-01T00:00:00Z", []string{"2026-07-01T09:30:00+02:00"}},
		"a missing hour": {"Europe/Berlin", "30 2 * * *", "2026-03-27T12:00:00Z",
			[]string{"2026-03-28T02:30:00+01:00", "2026-03-30T02:30:00+02:00"}},
		"a repeated hour": {"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-26T02:30:00+01:00"}},
		"several": {"", "0 12 * * *|0 0 30 2 *|15 12 * * *", "2026-01-01T00:00:00Z",
			[]string{"2026-01-01T12:00:00Z", "2026-01-01T12:15:00Z", "2026-01-02T12:00:00Z"}},
		"several at once fire once": {"", "0 12 * * *|0 12 * * *", "2026-01-01T00:00:00Z",
			[]string{"2026-01-01T12:00:00Z", "2026-01-02T12:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := cron.Parse(c.zone, strings.Split(c.specs, "|")...)
			if err != nil {
				t.Fatal(err)
			}
			got := each(t, s, c.from, len(c.want))
			if strings.Join(got, " ") != strings.Join(c.want, " ") {
				t.Errorf("Next() = %v, want %v", got, c.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for name, c := range map[string]struct {
		zone, want string
		specs      []string
	}{
		"no expression":      {"", "missing cron expression", nil},
		"an empty one":       {"", "empty cron expression", []string{"* * * * *", " "}},
		"too few fields":     {"", `invalid cron expression "* * *"`, []string{"* * *"}},
		"an hour out of day": {"", `invalid cron expression "0 25 * * *"`, []string{"0 25 * * *"}},
		"a step of zero":     {"", `invalid cron expression "*/0 * * * *"`, []string{"*/0 * * * *"}},
		"an unknown zone":    {"Europe/Atlantis", `unknown time zone "Europe/Atlantis"`, []string{"* * * * *"}},
		"a path":             {"../../etc/passwd", `unknown time zone "../../etc/passwd"`, []string{"* * * * *"}},
		"a long one":         {"", "has 1009 bytes: the limit is 512", []string{strings.Repeat("1,", 500) + "1 * * * *"}},
		"many":               {"", "101 cron expressions: the limit is 100", make([]string, 101)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cron.Parse(c.zone, c.specs...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse() = %v, want %q", err, c.want)
			}
		})
	}
}

// No accepted expression panics, takes long or fires in the past.
func FuzzNext(f *testing.F) {
	for _, spec := range []string{"* * * * *", "*/5 1-3,7 L * 5#2", "0 0 15W 2 * 2028", "@daily", "30/7 0 * * 1-7"} {
		f.Add(spec, int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, spec string, unix int64) {
		s, err := cron.Parse("America/Sao_Paulo", spec)
		if err != nil {
			return
		}
		at := time.Unix(unix%4_000_000_000, 0)
		begun := time.Now()
		defer func() {
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("Next(%v) of %q took %v", at, spec, took)
			}
		}()
		if next := s.Next(at); !next.IsZero() && !next.After(at) {
			t.Errorf("Next(%v) of %q = %v", at, spec, next)
		}
	})
}
