package mock

import (
	"fmt"
	"time"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var configSpec = hcldec.ObjectSpec{
	"fs_isolation":               attr("fs_isolation", cty.String),
	"isolation":                  attr("isolation", cty.String), // level of its tasks; none by default
	"shutdown_periodic_after":    attr("shutdown_periodic_after", cty.Bool),
	"shutdown_periodic_duration": attr("shutdown_periodic_duration", cty.Number), // seconds
	"allow_privileged":           attr("allow_privileged", cty.Bool),
	drivers.LegacyOption:         attr(drivers.LegacyOption, cty.Bool),
}

var taskSpec = hcldec.ObjectSpec{
	"run_for":                 attr("run_for", cty.String),
	"isolation":               attr("isolation", cty.String), // level of the task; by default that of the instance
	"needs_privilege":         attr("needs_privilege", cty.String),
	"exit_code":               attr("exit_code", cty.Number),
	"exit_signal":             attr("exit_signal", cty.Number),
	"exit_err_msg":            attr("exit_err_msg", cty.String),
	"oom_killed":              attr("oom_killed", cty.Bool),
	"start_error":             attr("start_error", cty.String),
	"start_error_recoverable": attr("start_error_recoverable", cty.Bool),
	"start_block_for":         attr("start_block_for", cty.String),
	"recover_error":           attr("recover_error", cty.String),
	"kill_after":              attr("kill_after", cty.String),
	"signal_error":            attr("signal_error", cty.String),
	"plugin_exit_after":       attr("plugin_exit_after", cty.String),
	"stdout_string":           attr("stdout_string", cty.String),
	"stdout_repeat":           attr("stdout_repeat", cty.Number),
	"stdout_repeat_duration":  attr("stdout_repeat_duration", cty.String),
	"stderr_string":           attr("stderr_string", cty.String),
	"stderr_repeat":           attr("stderr_repeat", cty.Number),
	"stderr_repeat_duration":  attr("stderr_repeat_duration", cty.String),
}

func attr(name string, t cty.Type) hcldec.Spec {
	return &hcldec.AttrSpec{Name: name, Type: t}
}

// settings is the decoded plugin block.
type settings struct {
	periodic       bool
	unhealthyAfter time.Duration
	level          drivers.Level
	privileged     bool // offers privilege
	legacy         bool
}

func decodeSettings(v cty.Value) (settings, error) {
	f := drivers.Fields{Value: v}
	s := settings{
		periodic:       f.Bool("shutdown_periodic_after"),
		unhealthyAfter: time.Duration(f.Int("shutdown_periodic_duration")) * time.Second,
		privileged:     f.Bool("allow_privileged"),
		legacy:         f.Bool(drivers.LegacyOption),
	}
	if name := f.String("isolation"); name != "" {
		var err error
		if s.level, err = drivers.ParseLevel(name); err != nil {
			return s, fmt.Errorf("isolation: %w", err)
		}
	}
	return s, f.Err()
}

// options is the decoded config block of a task, which is stored in the task handle.
type options struct {
	RunFor                time.Duration // 0: ends at once
	ExitCode              int
	ExitSignal            int
	ExitErr               string
	OOMKilled             bool
	StartError            string
	StartErrorRecoverable bool
	StartBlockFor         time.Duration
	RecoverError          string
	KillAfter             time.Duration
	SignalError           string
	PluginExitAfter       time.Duration
	Stdout, Stderr        output
}

// output is what a task prints on one stream.
type output struct {
	Text   string
	Repeat int           // further repetitions
	Every  time.Duration // interval
}

func decodeOptions(v cty.Value) (options, error) {
	f := drivers.Fields{Value: v}
	o := options{
		RunFor:                f.Duration("run_for"),
		ExitCode:              int(f.Int("exit_code")),
		ExitSignal:            int(f.Int("exit_signal")),
		ExitErr:               f.String("exit_err_msg"),
		OOMKilled:             f.Bool("oom_killed"),
		StartError:            f.String("start_error"),
		StartErrorRecoverable: f.Bool("start_error_recoverable"),
		StartBlockFor:         f.Duration("start_block_for"),
		RecoverError:          f.String("recover_error"),
		KillAfter:             f.Duration("kill_after"),
		SignalError:           f.String("signal_error"),
		PluginExitAfter:       f.Duration("plugin_exit_after"),
		Stdout:                decodeOutput(&f, "stdout"),
		Stderr:                decodeOutput(&f, "stderr"),
	}
	if err := f.Err(); err != nil {
		return options{}, fmt.Errorf("config of mock task: %w", err)
	}
	return o, nil
}

func decodeOutput(f *drivers.Fields, stream string) output {
	return output{
		Text:   f.String(stream + "_string"),
		Repeat: int(f.Int(stream + "_repeat")),
		Every:  f.Duration(stream + "_repeat_duration"),
	}
}
