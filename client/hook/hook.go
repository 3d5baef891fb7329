// Package hook calls the hooks of an allocation or a task, in their order. client/allochook and
// client/taskhook define the hook methods and their arguments. The loops that call them never
// refer to a hook by name.
//
// The package keeps no state and starts no goroutine.
package hook

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/go-metrics"
)

// Hook is one concern of an allocation or a task. It is called at the moments whose interfaces
// it implements.
type Hook interface {
	// Name returns a name that is unique in the list. It is the key of the hook's stored state,
	// metrics and log lines.
	Name() string
}

// List holds the hooks of one allocation or task, in the order in which they run.
type List struct {
	Kind  string // in the names of metrics: alloc_hook or task_hook
	Hooks []Hook
	Log   *slog.Logger
	// Unmeasured disables the metrics of the hooks.
	Unmeasured bool
}

// Each calls do for every hook of type H, until the first error.
func Each[H Hook](l List, moment string, do func(H) error) error {
	for _, hook := range l.Hooks {
		h, ok := hook.(H)
		if !ok {
			continue
		}
		if err := measured(l, moment, h, do); err != nil {
			return fmt.Errorf("hook %s: %w", h.Name(), err)
		}
	}
	return nil
}

// All calls do for every hook of type H. Errors are logged and do not stop the other hooks.
func All[H Hook](l List, moment string, do func(H) error) {
	for _, hook := range l.Hooks {
		h, ok := hook.(H)
		if !ok {
			continue
		}
		if err := measured(l, moment, h, do); err != nil {
			l.Log.Warn("hook failed", "hook", h.Name(), "moment", moment, "err", err)
		}
	}
}

// measured calls do and publishes its duration and result.
func measured[H Hook](l List, moment string, h H, do func(H) error) error {
	if l.Unmeasured {
		return do(h)
	}
	start := time.Now()
	err := do(h)
	labels := []metrics.Label{{Name: "hook_name", Value: h.Name()}}
	metrics.MeasureSinceWithLabels([]string{"client", l.Kind, moment, "elapsed"}, start, labels)
	result := "success"
	if err != nil {
		result = "failed"
	}
	metrics.IncrCounterWithLabels([]string{"client", l.Kind, moment, result}, 1, labels)
	return err
}
