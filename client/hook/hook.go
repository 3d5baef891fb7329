// Package hook calls the hooks of an allocation or of a task, in their order. What a
// hook is called for, and with what, is the business of client/allochook and
// client/taskhook; the loops that call them never ask for a hook by name.
//
// It keeps no state and starts no goroutine.
package hook

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/go-metrics"
)

// Hook is one concern of an allocation or a task. It takes part in the moments whose
// interfaces it implements.
type Hook interface {
	// Name is unique in the list: it keys the hook's stored state, metrics and log
	// lines.
	Name() string
}

// List are the hooks of one allocation or task, in the order in which they act.
type List struct {
	Kind  string // of whom, in the names of metrics: alloc_hook or task_hook
	Hooks []Hook
	Log   *slog.Logger
	// Unmeasured takes no metrics of the hooks.
	Unmeasured bool
}

// Each calls do for every hook that takes part in a moment, and stops at the first
// error.
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

// All is Each for moments where one hook's error is nobody else's: it is logged.
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

// measured is the one place where metrics of hooks are taken.
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
