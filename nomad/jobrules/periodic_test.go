package jobrules_test

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
)

func TestPeriodic(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		p    nomad.PeriodicConfig
		want string // "" means valid
	}{
		"cron":     {"batch", nomad.PeriodicConfig{Enabled: true, Spec: "*/15 * * * *"}, ""},
		"crons":    {"sysbatch", nomad.PeriodicConfig{Enabled: true, Specs: []string{"@daily", "@hourly"}, TimeZone: "Asia/Tokyo"}, ""},
		"disabled": {"batch", nomad.PeriodicConfig{}, ""},
		"service": {"service", nomad.PeriodicConfig{Enabled: true, Spec: "@daily"},
			"periodic requires a job of type batch or sysbatch, not service"},
		"system, disabled": {"system", nomad.PeriodicConfig{}, "periodic requires a job of type batch or sysbatch, not system"},
		"neither":          {"batch", nomad.PeriodicConfig{Enabled: true}, "periodic block: missing cron expression"},
		"both": {"batch", nomad.PeriodicConfig{Enabled: true, Spec: "@daily", Specs: []string{"@hourly"}},
			"has cron and crons: keep one of them"},
		"invalid":          {"batch", nomad.PeriodicConfig{Enabled: true, Spec: "daily"}, `periodic block: invalid cron expression "daily"`},
		"never":            {"batch", nomad.PeriodicConfig{Enabled: true, Spec: "0 0 31 4 *"}, `["0 0 31 4 *"] never fires again`},
		"one of two fires": {"batch", nomad.PeriodicConfig{Enabled: true, Specs: []string{"0 0 31 4 *", "0 0 * * *"}}, ""},
		"only in the past": {"batch", nomad.PeriodicConfig{Enabled: true, Spec: "0 0 1 1 * 2001"}, "never fires again"},
		"unknown zone": {"batch", nomad.PeriodicConfig{Enabled: true, Spec: "@daily", TimeZone: "Mars/Olympus"},
			`periodic block: unknown time zone "Mars/Olympus"`},
		"unknown spec type": {"batch", nomad.PeriodicConfig{Enabled: true, Spec: "@daily", SpecType: "sun"},
			`spec type of the periodic block is "sun": it must be cron`},
	} {
		t.Run(name, func(t *testing.T) {
			j := sample(c.kind)
			j.Periodic = &c.p
			jobrules.Canonicalize(j)
			err := jobrules.Validate(j)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Validate() = %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Validate() = %v, want %q", err, c.want)
			}
		})
	}
}
