package operator

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func keysOf[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }

func schedulerGetCommand() term.Command {
	return term.Shown(term.Command{Name: "operator scheduler get-config", Short: "Show the scheduler configuration"},
		func(ctx context.Context, c *api.Client) (*api.SchedulerConfigurationResponse, error) {
			resp, _, err := c.Operator().SchedulerGetConfiguration((&api.QueryOptions{}).WithContext(ctx))
			if err != nil {
				return nil, fmt.Errorf("Error querying scheduler configuration: %w", err)
			}
			return resp, nil
		},
		func(e *term.Env, resp *api.SchedulerConfigurationResponse) {
			s := resp.SchedulerConfig
			e.Println(term.Pairs([]string{
				term.Row("Scheduler Algorithm", s.SchedulerAlgorithm),
				term.Row("Memory Oversubscription", s.MemoryOversubscriptionEnabled),
				term.Row("Reject Job Registration", s.RejectJobRegistration),
				term.Row("Pause Eval Broker", s.PauseEvalBroker),
				term.Row("Preemption System Scheduler", s.PreemptionConfig.SystemSchedulerEnabled),
				term.Row("Preemption Service Scheduler", s.PreemptionConfig.ServiceSchedulerEnabled),
				term.Row("Preemption Batch Scheduler", s.PreemptionConfig.BatchSchedulerEnabled),
				term.Row("Preemption SysBatch Scheduler", s.PreemptionConfig.SysBatchSchedulerEnabled),
				term.Row("Node Limit For Feasibility Checks", s.NodeLimitForFeasibilityChecks),
				term.Row("Modify Index", s.ModifyIndex),
			}))
		})
}

func schedulerSetCommand() term.Command {
	return term.Command{
		Name: "operator scheduler set-config", Short: "Update the scheduler configuration",
		Setup: func(f *term.Flags) term.Run {
			algorithm := f.String("scheduler-algorithm", "", "binpack or spread.")
			var limit *uint64
			f.Func("node-limit-for-feasibility-checks",
				"The maximum number of `nodes` that the scheduler checks for an allocation whose group has constraints.", func(text string) error {
					n, err := strconv.ParseUint(text, 10, 32)
					limit = &n
					return err
				})
			index := f.String("check-index", "", "Update only if the modify `index` of the configuration is equal.")
			set := map[**bool]func(*api.SchedulerConfiguration) *bool{
				f.OptBool("memory-oversubscription",
					"Allow memory_max of tasks."): func(s *api.SchedulerConfiguration) *bool {
					return &s.MemoryOversubscriptionEnabled
				},
				f.OptBool("reject-job-registration",
					"Reject job registrations."): func(s *api.SchedulerConfiguration) *bool {
					return &s.RejectJobRegistration
				},
				f.OptBool("pause-eval-broker",
					"Pause the evaluation broker."): func(s *api.SchedulerConfiguration) *bool {
					return &s.PauseEvalBroker
				},
				f.OptBool("preempt-system-scheduler",
					"Enable preemption for system jobs."): func(s *api.SchedulerConfiguration) *bool {
					return &s.PreemptionConfig.SystemSchedulerEnabled
				},
				f.OptBool("preempt-service-scheduler",
					"Enable preemption for service jobs."): func(s *api.SchedulerConfiguration) *bool {
					return &s.PreemptionConfig.ServiceSchedulerEnabled
				},
				f.OptBool("preempt-batch-scheduler",
					"Enable preemption for batch jobs."): func(s *api.SchedulerConfiguration) *bool {
					return &s.PreemptionConfig.BatchSchedulerEnabled
				},
				f.OptBool("preempt-sysbatch-scheduler",
					"Enable preemption for sysbatch jobs."): func(s *api.SchedulerConfiguration) *bool {
					return &s.PreemptionConfig.SysBatchSchedulerEnabled
				},
			}
			return func(ctx context.Context, e *term.Env) error {
				return setScheduler(ctx, e, *index, func(s *api.SchedulerConfiguration) {
					for flag, field := range set {
						if *flag != nil {
							*field(s) = **flag
						}
					}
					if limit != nil {
						s.NodeLimitForFeasibilityChecks = uint(*limit)
					}
					if *algorithm != "" {
						s.SchedulerAlgorithm = api.SchedulerAlgorithm(*algorithm)
					}
				})
			}
		},
	}
}

// setScheduler reads the configuration, edits it, and writes it by check-and-set.
func setScheduler(ctx context.Context, e *term.Env, index string, edit func(*api.SchedulerConfiguration)) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	resp, _, err := c.Operator().SchedulerGetConfiguration((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return fmt.Errorf("Error querying scheduler configuration: %w", err)
	}
	s := resp.SchedulerConfig
	if index != "" {
		n, err := strconv.ParseUint(index, 10, 64)
		if err != nil {
			return fmt.Errorf("Error parsing check-index value %q: expected a number", index)
		}
		s.ModifyIndex = n
	}
	edit(s)
	done, _, err := c.Operator().SchedulerCASConfiguration(s, (&api.WriteOptions{}).WithContext(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("Error setting scheduler configuration: %w", err)
	case !done.Updated:
		return fmt.Errorf("Scheduler configuration could not be atomically updated, please try again")
	}
	e.Println("Scheduler configuration updated!")
	return nil
}
