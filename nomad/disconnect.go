package nomad

import "time"

// The values of reconcile in a disconnect block: the allocation to keep when a client returns.
const (
	ReconcileKeepOriginal    = "keep_original"
	ReconcileKeepReplacement = "keep_replacement"
	ReconcileBestScore       = "best_score"
	ReconcileLongestRunning  = "longest_running"
)

// AllocStateClientStatus means that an AllocState records a client status.
const AllocStateClientStatus AllocStateField = 0

// AllocUnknownDescription is the client description of an unknown allocation.
const AllocUnknownDescription = "alloc is unknown since its node is disconnected"

// LostAfter returns how long an allocation of the group may be unknown before it is lost. Zero means that it is lost
// at once.
func (tg *TaskGroup) LostAfter() time.Duration {
	if tg == nil || tg.Disconnect == nil {
		return 0
	}
	return tg.Disconnect.LostAfter
}

// leastStopTime is the minimum time that a client gets to stop the tasks of an allocation.
const leastStopTime = 5 * time.Second

// StopTime returns how long after its loss a client has certainly stopped an allocation of the group by itself. It is zero
// without stop_on_client_after.
func (tg *TaskGroup) StopTime() time.Duration {
	if tg == nil || tg.Disconnect == nil || tg.Disconnect.StopOnClientAfter == nil {
		return 0
	}
	kill := leastStopTime
	for _, t := range tg.Tasks {
		kill = max(kill, t.KillTimeout)
	}
	return *tg.Disconnect.StopOnClientAfter + kill
}

// ReplacesDisconnected reports whether an allocation of the group is replaced while its client is disconnected.
func (tg *TaskGroup) ReplacesDisconnected() bool {
	return tg == nil || tg.Disconnect == nil || tg.Disconnect.Replace == nil || *tg.Disconnect.Replace
}

// LastUnknown returns when the allocation last became unknown. It is zero if it never was.
func (a *Allocation) LastUnknown() time.Time {
	for i := len(a.AllocStates) - 1; i >= 0; i-- {
		if s := a.AllocStates[i]; s.Field == AllocStateClientStatus && s.Value == AllocClientStatusUnknown {
			return s.Time
		}
	}
	return time.Time{}
}

// WasUnknown reports whether unknown is the last recorded client status of an allocation that is unknown, runs or has
// failed: its client returned, or may return.
func (a *Allocation) WasUnknown() bool {
	switch a.ClientStatus {
	case AllocClientStatusUnknown, AllocClientStatusRunning, AllocClientStatusFailed:
	default:
		return false
	}
	for i := len(a.AllocStates) - 1; i >= 0; i-- {
		if s := a.AllocStates[i]; s.Field == AllocStateClientStatus {
			return s.Value == AllocClientStatusUnknown
		}
	}
	return false
}

// Expired reports whether the allocation has been unknown for longer than its group allows.
func (a *Allocation) Expired(now time.Time) bool {
	if a.ClientStatus != AllocClientStatusUnknown || a.Job == nil {
		return false
	}
	return !a.LastUnknown().Add(a.Job.TaskGroup(a.TaskGroup).LostAfter()).After(now)
}

// WithState returns a copy of the allocation that records a client status.
func (a *Allocation) WithState(status string, now time.Time) *Allocation {
	out := *a
	out.AllocStates = append(append([]*AllocState(nil), a.AllocStates...), &AllocState{
		Field: AllocStateClientStatus,
		Value: status,
		Time:  now.UTC(),
	})
	return &out
}
