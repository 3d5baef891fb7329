package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/cron"
)

func TestWindow(t *testing.T) {
	const layout = "2006-01-02 15:04:05 MST"
	for _, tc := range []struct {
		name, zone, start, end, now string
		open                        bool
		change                      string // "" for never
	}{
		{"inside", "UTC", "30 9 * * MON-FRI *", "0 16", "2026-11-26 12:00:00 UTC", true, "2026-11-26 16:00:00 UTC"},
		{"at the start", "UTC", "30 9 * * MON-FRI *", "0 16", "2026-11-26 09:30:00 UTC", true, "2026-11-26 16:00:00 UTC"},
		{"just before the start", "UTC", "30 9 * * MON-FRI *", "0 16", "2026-11-26 09:29:59 UTC", false, "2026-11-26 09:30:00 UTC"},
		{"at the end", "UTC", "30 9 * * MON-FRI *", "0 16", "2026-11-26 16:00:00 UTC", false, "2026-11-27 09:30:00 UTC"},
		{"weekend", "UTC", "30 9 * * MON-FRI *", "0 16", "2026-11-28 12:00:00 UTC", false, "2026-11-30 09:30:00 UTC"},
		{"over midnight", "UTC", "0 22 * * FRI *", "0 6", "2026-11-28 05:00:00 UTC", true, "2026-11-28 06:00:00 UTC"},
		{"after midnight is over", "UTC", "0 22 * * FRI *", "0 6", "2026-11-28 06:30:00 UTC", false, "2026-12-04 22:00:00 UTC"},
		{"end is the next start", "UTC", "0 8 * * * *", "0 8", "2026-11-28 08:00:00 UTC", true, "2026-11-29 08:00:00 UTC"},
		{"each minute of an hour", "UTC", "* 8 * * * *", "30 9", "2026-11-28 09:15:00 UTC", true, "2026-11-28 09:30:00 UTC"},
		{"another zone", "America/New_York", "0 9 * * * *", "0 17", "2026-11-26 13:59:00 UTC", false, "2026-11-26 14:00:00 UTC"},
		{"no further year", "UTC", "0 9 1 1 * 2020", "0 17", "2026-11-26 12:00:00 UTC", false, ""},
		// 2026-03-29: the clocks in Berlin go from 2:00 to 3:00. 2:30 does not exist.
		{"start is skipped", "Europe/Berlin", "30 2 * * * *", "0 12", "2026-03-29 08:00:00 UTC", false, "2026-03-30 00:30:00 UTC"},
		{"end is skipped", "Europe/Berlin", "0 1 * * * *", "30 2", "2026-03-29 08:00:00 UTC", true, "2026-03-30 00:30:00 UTC"},
		// 2026-10-25: the clocks go from 3:00 back to 2:00. 2:30 exists twice.
		{"the end closes at its first time", "Europe/Berlin", "0 1 * * * *", "30 2", "2026-10-25 00:29:00 UTC", true, "2026-10-25 00:30:00 UTC"},
		{"and stays closed", "Europe/Berlin", "0 1 * * * *", "30 2", "2026-10-25 00:45:00 UTC", false, "2026-10-26 00:00:00 UTC"},
		{"a longer night", "Europe/Berlin", "0 22 * * * *", "0 6", "2026-10-25 04:59:00 UTC", true, "2026-10-25 05:00:00 UTC"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := cron.ParseWindow(tc.zone, tc.start, tc.end)
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(layout, tc.now)
			if err != nil {
				t.Fatal(err)
			}
			open, change := w.At(now)
			got := ""
			if !change.IsZero() {
				got = change.UTC().Format(layout)
			}
			if open != tc.open || got != tc.change {
				t.Errorf("At(%s) = %v until %q, want %v until %q", tc.now, open, got, tc.open, tc.change)
			}
		})
	}
}

func TestInvalidWindows(t *testing.T) {
	for _, tc := range []struct{ zone, start, end, want string }{
		{"", "30 9 * * *", "0 16", `start "30 9 * * *" has 5 fields: it must have 6`},
		{"", "30 9 * * * *", "0 16 *", `end "0 16 *" has 3 fields: it must have 2: minute and hour`},
		{"", "", "0 16", "has 0 fields"},
		{"", "*/5 9 * * * *", "0 16", `start "*/5 9 * * * *" must not contain / or ,`},
		{"", "0 9 * * * *", "0,30 16", `end "0,30 16" must not contain / or ,`},
		{"", "0 99 * * * *", "0 16", "start: invalid cron expression"},
		{"", "0 9 * * * *", "61 16", "end: invalid cron expression"},
		{"Mars/Base", "0 9 * * * *", "0 16", `unknown time zone "Mars/Base"`},
	} {
		if _, err := cron.ParseWindow(tc.zone, tc.start, tc.end); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ParseWindow(%q, %q, %q) = %v, want %q", tc.zone, tc.start, tc.end, err, tc.want)
		}
	}
}
