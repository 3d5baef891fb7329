package scheduler_test

import (
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// ruleJob registers the job, or a changed copy.
func (r *ruleScript) ruleJob(args []string) {
	edit := func(j *nomad.Job) {
		for _, arg := range args {
			key, value, _ := strings.Cut(arg, "=")
			r.setField(j, key, value)
		}
	}
	if r.jobs["j"] != nil {
		r.change(edit)
		return
	}
	r.register(job(nomad.JobTypeService, 1, edit))
}

// setField sets a field of the job, of its group or of its task.
func (r *ruleScript) setField(j *nomad.Job, key, value string) {
	tg := j.TaskGroups[0]
	switch key {
	case "type":
		j.Type = value
	case "stop":
		j.Stop = true
	case "priority":
		j.Priority = r.number(value)
	case "kernel":
		j.Constraints = []*nomad.Constraint{{LTarget: "${attr.kernel.name}", Operand: "=", RTarget: value}}
	case "datacenter":
		j.Datacenters = []string{value}
	case "pool":
		j.NodePool = value
	case "count":
		tg.Count = r.number(value)
	case "group":
		tg.Name = value
	case "command":
		tg.Tasks[0].Config = map[string]any{"command": value}
	case "cpu":
		tg.Tasks[0].Resources.CPU = r.number(value)
	default:
		r.setBlock(tg, key, value)
	}
}

// setBlock sets a field of a block of the group.
func (r *ruleScript) setBlock(tg *nomad.TaskGroup, key, value string) {
	if tg.Update == nil && (key == "max_parallel" || key == "canary") {
		tg.Update = &nomad.UpdateStrategy{}
	}
	switch key {
	case "max_parallel":
		tg.Update.MaxParallel = r.number(value)
	case "canary":
		tg.Update.Canary = r.number(value)
	case "max_run_duration":
		d := r.duration(value)
		tg.MaxRunDuration = &d
	case "stop_on_client_after":
		d := r.duration(value)
		tg.Disconnect = &nomad.DisconnectStrategy{StopOnClientAfter: &d}
	case "lost_after":
		tg.Disconnect = &nomad.DisconnectStrategy{LostAfter: r.duration(value), Replace: &no}
	case "replaced_within":
		tg.Disconnect = &nomad.DisconnectStrategy{LostAfter: r.duration(value)}
	default:
		if tg.ReschedulePolicy == nil {
			tg.ReschedulePolicy = &nomad.ReschedulePolicy{DelayFunction: "constant"}
		}
		r.setPolicy(tg.ReschedulePolicy, key, value)
	}
}

// setPolicy sets a field of the reschedule policy.
func (r *ruleScript) setPolicy(p *nomad.ReschedulePolicy, key, value string) {
	switch key {
	case "attempts":
		p.Attempts = r.number(value)
	case "interval":
		p.Interval = r.duration(value)
	case "delay":
		p.Delay = r.duration(value)
	case "max_delay":
		p.MaxDelay = r.duration(value)
	case "function":
		p.DelayFunction = value
	case "unlimited":
		p.Unlimited = true
	default:
		r.t.Fatalf("unknown field %q", key)
	}
}
