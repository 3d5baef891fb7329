package cron

import (
	"fmt"
	"strings"
	"time"
)

// lookback are the times before a moment in which its last start is searched. The longest exceeds two
// days: an end time that does not exist on one day, because the clocks are set forward, comes on the next.
var lookback = []time.Duration{time.Minute, time.Hour, 25 * time.Hour, 49 * time.Hour}

// Window is a recurring period: it opens at each start, and closes at the next end after the start. It
// is not safe for concurrent use.
//
//	start 30 9 * * MON-FRI *    ┌────open────┐
//	end    0 16               ──┘9:30      16:00└──
//
// A start in an open window changes nothing. An end before the start of the day closes the window on the next
// day.
type Window struct{ start, end *Schedule }

// ParseWindow returns the window of a start with six fields and an end with two, minute and hour. Steps
// and lists are not allowed. An empty zone is the local one.
func ParseWindow(zone, start, end string) (*Window, error) {
	if zone == "" {
		zone = "Local"
	}
	for _, f := range []struct {
		name, spec string
		fields     int
		names      string
	}{{"start", start, 6, "minute, hour, day of month, month, day of week and year"}, {"end", end, 2, "minute and hour"}} {
		switch {
		case len(strings.Fields(f.spec)) != f.fields:
			return nil, fmt.Errorf("%s %q has %d fields: it must have %d: %s", f.name, f.spec, len(strings.Fields(f.spec)), f.fields, f.names)
		case strings.ContainsAny(f.spec, "/,"):
			return nil, fmt.Errorf("%s %q must not contain / or ,", f.name, f.spec)
		}
	}
	from, err := Parse(zone, start)
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	to, err := Parse(zone, end+" * * * *")
	if err != nil {
		return nil, fmt.Errorf("end: %w", err)
	}
	return &Window{from, to}, nil
}

// At reports whether the window is open, and when that changes next. The time is zero if it never does.
func (w *Window) At(now time.Time) (open bool, change time.Time) {
	if last, ok := w.lastStart(now); ok {
		if end := w.end.Next(last); now.Before(end) {
			return true, end
		}
	}
	return false, w.start.Next(now)
}

// lastStart returns the last start that is not after now. Earlier ones than lookback have no effect any more.
func (w *Window) lastStart(now time.Time) (last time.Time, ok bool) {
	for _, back := range lookback {
		for next := w.start.Next(now.Add(-back)); !next.IsZero() && !next.After(now); next = w.start.Next(next) {
			last, ok = next, true
		}
		if ok {
			return last, true
		}
	}
	return last, false
}
