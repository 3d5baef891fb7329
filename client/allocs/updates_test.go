package allocs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// sent is one call of Node.UpdateAlloc.
type sent struct {
	at     time.Duration
	allocs []*nomad.Allocation
}

// failing is sending to servers that fail the first calls.
func failing(t *testing.T, fail int) (u *updates, stop func() []sent) {
	t.Helper()
	return sending(t, func(call int) error {
		if call <= fail {
			return errors.New("not now")
		}
		return nil
	})
}

// sending runs updates in a synctest bubble until stop, which returns the calls. answer returns
// the result of a call, by its number.
func sending(t *testing.T, answer func(call int) error) (u *updates, stop func() []sent) {
	t.Helper()
	begun := time.Now()
	var calls []sent // written by Run's goroutine, read after its end
	u = newUpdates(func(_ context.Context, allocs []*nomad.Allocation) error {
		calls = append(calls, sent{time.Since(begun), allocs})
		return answer(len(calls))
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := u.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run() = %v", err)
		}
	}()
	return u, func() []sent {
		cancel()
		<-done
		return calls
	}
}

func statusOf(id string, description string) *nomad.Allocation {
	return &nomad.Allocation{ID: id, ClientStatus: nomad.AllocClientStatusPending, ClientDescription: description}
}

func TestUpdates_DetailsGoWithTheNextChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, stop := failing(t, 0)
		u.putDetail(statusOf("a", "received"))
		time.Sleep(detailWait / 2)
		u.putDetail(statusOf("a", "task setup"))
		synctest.Wait()
		u.putDetail(statusOf("b", "received"))
		u.put(statusOf("a", "running"))
		synctest.Wait()
		time.Sleep(time.Hour)
		calls := stop()
		if len(calls) != 1 || calls[0].at != detailWait/2 || len(calls[0].allocs) != 2 {
			t.Fatalf("%d calls, the first %+v; want one with both, without delay", len(calls), calls)
		}
		if i := slices.IndexFunc(calls[0].allocs,
			func(a *nomad.Allocation) bool { return a.ID == "a" }); calls[0].allocs[i].ClientDescription != "running" {
			t.Errorf("sent %+v, want the newest", calls[0].allocs[i])
		}
	})
}

func TestUpdates_DetailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, stop := failing(t, 1)
		for range 3 {
			u.putDetail(statusOf("a", "received"))
			time.Sleep(detailWait / 4)
		}
		time.Sleep(time.Hour)
		u.putDetail(statusOf("a", "task setup"))
		time.Sleep(time.Hour)
		calls := stop()
		if len(calls) != 3 {
			t.Fatalf("%d calls, want a failed one, its retry and a later one", len(calls))
		}
		if calls[0].at != detailWait || calls[1].at > detailWait+updateBackoffMin || calls[2].allocs[0].ClientDescription != "task setup" {
			t.Errorf("calls are %+v", calls)
		}
	})
}

// Statuses that the servers refuse are not sent again, nor are the others of their call. The next
// status is sent.
func TestUpdates_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, stop := sending(t, func(call int) error {
			if call == 1 {
				return &apierror.RefusedAllocs{IDs: []string{"a"}}
			}
			return nil
		})
		u.put(statusOf("a", "running"))
		u.put(statusOf("b", "running"))
		time.Sleep(time.Hour)
		u.put(statusOf("a", "complete"))
		time.Sleep(time.Hour)
		var sent []string // the first two in one call or in two, in any order
		for _, c := range stop() {
			for _, a := range c.allocs {
				sent = append(sent, fmt.Sprintf("%v %s %s", c.at, a.ID, a.ClientDescription))
			}
		}
		slices.Sort(sent)
		if want := []string{"0s a running", "0s b running", "1h0m0s a complete"}; !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
	})
}

// TestDeltaOf checks that only task events are a detail and everything else is a change.
func TestDeltaOf(t *testing.T) {
	base := func() *nomad.Allocation {
		return &nomad.Allocation{ID: "a", ClientStatus: nomad.AllocClientStatusPending,
			TaskStates: map[string]*nomad.TaskState{"t": {State: nomad.TaskStatePending, Events: []*nomad.TaskEvent{{Type: "Received"}}}}}
	}
	event := base()
	event.TaskStates["t"].Events = append(event.TaskStates["t"].Events, &nomad.TaskEvent{Type: "Task Setup"})
	another := base()
	another.TaskStates["u"] = &nomad.TaskState{State: nomad.TaskStatePending}
	for name, tc := range map[string]struct {
		before, now *nomad.Allocation
		want        delta
	}{
		"first": {nil, base(), detail}, "same": {base(), base(), nothing}, "event": {base(), event, detail}, "task": {base(), another, change},
	} {
		if got := deltaOf(tc.before, tc.now); got != tc.want {
			t.Errorf("%s: deltaOf() = %d, want %d", name, got, tc.want)
		}
	}
	differs := func(name string, now *nomad.Allocation) {
		t.Helper()
		if got := deltaOf(base(), now); got != change {
			t.Errorf("%s: deltaOf() = %d, want a change", name, got)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[nomad.Allocation]()) {
		if now := base(); f.IsExported() && f.Name != "TaskStates" {
			otherwise(reflect.ValueOf(now).Elem().FieldByIndex(f.Index))
			differs(f.Name, now)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[nomad.TaskState]()) {
		if f.Name == "Events" {
			continue
		}
		now := base()
		otherwise(reflect.ValueOf(now.TaskStates["t"]).Elem().FieldByIndex(f.Index))
		differs("task "+f.Name, now)
		if got := deltaOf(nil, now); got != change {
			t.Errorf("task %s: deltaOf() of the first status = %d, want a change", f.Name, got)
		}
	}
	for name, edit := range map[string]func(*nomad.Allocation){
		"running": func(a *nomad.Allocation) { a.ClientStatus = nomad.AllocClientStatusRunning },
		"healthy": func(a *nomad.Allocation) { a.DeploymentStatus = &nomad.AllocDeploymentStatus{} },
		"network": func(a *nomad.Allocation) { a.NetworkStatus = &nomad.AllocNetworkStatus{} },
	} {
		now := base()
		edit(now)
		if got := deltaOf(nil, now); got != change {
			t.Errorf("%s: deltaOf() of the first status = %d, want a change", name, got)
		}
	}
}

// otherwise changes a field to another value.
func otherwise(f reflect.Value) {
	switch f.Kind() {
	case reflect.String:
		f.SetString(f.String() + "x")
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	case reflect.Map:
		f.Set(reflect.MakeMap(f.Type()))
		f.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(f.Type().Elem()))
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Struct:
		if f.Type() == reflect.TypeFor[time.Time]() {
			f.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		otherwise(f.Field(0))
	default:
		if f.CanInt() {
			f.SetInt(f.Int() + 1)
			return
		}
		f.SetUint(f.Uint() + 1)
	}
}
