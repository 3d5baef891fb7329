package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/docker/go-units"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// fieldsOnly matches texts in which the daemon replaces fields of the container, such as "{{.Name}}". The functions of
// its templates can allocate any amount of memory of the daemon.
var fieldsOnly = pattern.Lazy(`^([^{}]|\{\{ ?\.[A-Za-z]+ ?\}\})*$`)

// plainSize matches the numbers and sizes that all versions of the daemon read alike.
var plainSize = pattern.Lazy(`^[0-9]{1,15}([kKmMgG][bB]?)?$`)

// Limits of the options of loggers. At each rotation, the daemon renames up to max-file files. It buffers up to
// max-buffer-size of the output of a container in its own memory.
const (
	maxTag       = 256
	maxLogFiles  = 100
	minLogFile   = 64_000
	maxLogBuffer = 16 << 20
)

// loggerValues check the values of options that tasks give. The daemon reads them as root, and outside of the limits of
// the task. Options that are not listed have any value.
var loggerValues = map[string]func(value string) error{
	"tag": func(value string) error {
		if len(value) > maxTag || !fieldsOnly().MatchString(value) {
			return fmt.Errorf("is not a text of at most %d bytes with fields such as {{.Name}}: functions are not allowed", maxTag)
		}
		return nil
	},
	"max-file": func(value string) error {
		if n, err := strconv.Atoi(value); err != nil || n < 1 || n > maxLogFiles || !plainSize().MatchString(value) {
			return fmt.Errorf("is not a number from 1 to %d", maxLogFiles)
		}
		return nil
	},
	"max-size": func(value string) error {
		if n, err := units.FromHumanSize(value); value != "-1" && (err != nil || n < minLogFile || !plainSize().MatchString(value)) {
			return fmt.Errorf("is neither -1 nor a size of at least 64k")
		}
		return nil
	},
	"max-buffer-size": func(value string) error {
		if n, err := units.RAMInBytes(value); err != nil || n < 1 || n > maxLogBuffer || !plainSize().MatchString(value) {
			return fmt.Errorf("is not a size of at most 16m")
		}
		return nil
	},
}

// checkLogging refuses options that a logger does not have, and values with which a task can harm the daemon. The node
// decides on the loggers.
func (o *Task) checkLogging() error {
	known, ok := loggerOptions[o.logging.Driver]
	for _, name := range slices.Sorted(maps.Keys(o.logging.Options)) {
		if ok && !slices.Contains(known, name) {
			return fmt.Errorf("logging: %q has no option %q", o.logging.Driver, name)
		}
		if check := loggerValues[name]; check != nil {
			if err := check(o.logging.Options[name]); err != nil {
				return fmt.Errorf("logging: %s %.100q %w", name, o.logging.Options[name], err)
			}
		}
	}
	return nil
}
