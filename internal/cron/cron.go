// Package cron computes the times at which cron expressions fire, in a time zone.
//
//	┌─ second, only with 7 fields
//	│ ┌─ minute  ┌─ day of month  ┌─ day of week, 0 to 7
//	│ │ ┌─ hour  │ ┌─ month       │ ┌─ year, only with 6 or 7 fields
//	0 30 9       * *              1 2030
//
// This example fires at 9:30 on each Monday of 2030. If the day of the month and the day of the week are both
// restricted, a day that matches one of them is enough. Parse returns a Schedule of one or several expressions, and
// Next returns its next time.
//
// A local time that does not exist, because the clocks are set forward, is skipped on that day. A
// local time that occurs twice fires twice. The package reads no clock and no state. It embeds a database
// of time zones for hosts that have none.
package cron

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // for hosts without a database of time zones

	"github.com/hashicorp/cronexpr"
)

// Limits of a schedule.
const (
	maxSpecs = 100
	maxSpec  = 512 // bytes
)

// Schedule is one or several cron expressions in a time zone. It is not safe for concurrent use.
type Schedule struct {
	zone  *time.Location
	specs []*cronexpr.Expression
}

// Parse returns the schedule of cron expressions. An empty zone is UTC.
func Parse(zone string, specs ...string) (*Schedule, error) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q: use a name such as Europe/Berlin", zone)
	}
	switch {
	case len(specs) == 0:
		return nil, fmt.Errorf("missing cron expression")
	case len(specs) > maxSpecs:
		return nil, fmt.Errorf("%d cron expressions: the limit is %d", len(specs), maxSpecs)
	}
	s := &Schedule{zone: location}
	for _, spec := range specs {
		expr, err := parse(spec)
		if err != nil {
			return nil, err
		}
		s.specs = append(s.specs, expr)
	}
	return s, nil
}

func parse(spec string) (*cronexpr.Expression, error) {
	switch {
	case strings.TrimSpace(spec) == "":
		return nil, fmt.Errorf("empty cron expression")
	case len(spec) > maxSpec:
		return nil, fmt.Errorf("a cron expression has %d bytes: the limit is %d", len(spec), maxSpec)
	}
	expr, err := cronexpr.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("invalid cron expression %q: %w", spec, err)
	}
	return expr, nil
}

// Next returns the first time after the given one at which an expression fires, in the time zone of
// the schedule. It is the zero time if none fires again.
func (s *Schedule) Next(after time.Time) time.Time {
	var first time.Time
	after = after.In(s.zone)
	for _, spec := range s.specs {
		if next := spec.Next(after); !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first
}
