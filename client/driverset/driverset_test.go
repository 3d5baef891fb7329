package driverset_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func set(t *testing.T, block map[string]any, extra ...drivers.Driver) *driverset.Set {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := driverset.New(driverset.Config{
		Drivers: append(extra, mock.New(log)), Plugins: map[string]map[string]any{mock.Name: block}, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, map[string]any{"shutdown_periodic_after": true, "shutdown_periodic_duration": 60})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		start := time.Now()
		if err := s.Ready(ctx); err != nil || time.Since(start) != 0 {
			t.Errorf("Ready() = %v after %v, want at once", err, time.Since(start))
		}
		<-s.Changed()
		if info := s.Infos()[mock.Name]; info == nil || !info.Healthy || !info.Detected {
			t.Errorf("info = %+v, want healthy", info)
		}
		<-s.Changed()
		if info := s.Infos()[mock.Name]; info.Detected || time.Since(start) != time.Minute {
			t.Errorf("info = %+v after %v, want undetected after 1m", info, time.Since(start))
		}
		cancel()
		<-ended
	})
}

// silent never sends a fingerprint.
type silent struct{ drivers.Driver }

func (silent) Name() string { return "silent" }

func (silent) Fingerprint(context.Context) <-chan drivers.Fingerprint { return nil }

func TestSilentDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, nil, silent{mock.New(slog.New(slog.DiscardHandler))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		if err := s.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		if info := s.Infos()["silent"]; info == nil || info.Healthy || !s.Infos()[mock.Name].Healthy {
			t.Errorf("info = %+v, want it unhealthy and the other one not", info)
		}
		cancel()
		<-ended
	})
}

// aliased is a driver with two names for its plugin block.
type aliased struct{ drivers.Driver }

func (aliased) Aliases() []string { return []string{"old-mock"} }

func TestPluginBlocks(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, tc := range []struct {
		name, want string
		plugins    map[string]map[string]any
	}{
		{"unknown key", "shutdown_when", map[string]map[string]any{mock.Name: {"shutdown_when": 1}}},
		{"wrong type", "shutdown_periodic_after", map[string]map[string]any{mock.Name: {"shutdown_periodic_after": []any{}}}},
		{"no such driver", `plugin "exec9"`, map[string]map[string]any{"exec9": {}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := driverset.New(driverset.Config{Drivers: []drivers.Driver{mock.New(log)}, Plugins: tc.plugins, Log: log})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New() = %v, want an error that names %s", err, tc.want)
			}
		})
	}
	aliasKnown := aliased{mock.New(log)}
	for name, tc := range map[string]struct {
		plugins map[string]map[string]any
		want    string
	}{
		"other name":         {map[string]map[string]any{"old-mock": {"shutdown_periodic_after": true}}, ""},
		"other name, faulty": {map[string]map[string]any{"old-mock": {"shutdown_when": 1}}, "shutdown_when"},
		"both names":         {map[string]map[string]any{"old-mock": {}, mock.Name: {}}, `"mock_driver" and plugin "old-mock" are the same driver`},
	} {
		_, err := driverset.New(driverset.Config{Drivers: []drivers.Driver{aliasKnown}, Plugins: tc.plugins, Log: log})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: New() = %v, want %q", name, err, tc.want)
		}
	}
	if _, err := set(t, nil).Driver("exec9"); !errors.Is(err, driverset.ErrUnknown) {
		t.Errorf("Driver(exec9) = %v, want ErrUnknown", err)
	}
}

func TestUsers(t *testing.T) {
	u, err := driverset.NewUsers(3100000, 3100002)
	if err != nil {
		t.Fatal(err)
	}
	lend := func(owner string) int {
		t.Helper()
		uid, err := u.Assign(owner)
		if err != nil {
			t.Fatal(err)
		}
		return uid
	}
	if err := u.Claim(3100001, "old"); err != nil {
		t.Fatal(err)
	}
	if err := u.Claim(3100001, "other"); err == nil {
		t.Error("Claim() of an assigned uid = nil, want an error")
	}
	// The uids below a claimed one may have been assigned recently: they come last.
	if a, b := lend("new"), lend("new"); a != 3100002 || b != 3100000 {
		t.Errorf("lent %d and %d, want the unclaimed ones", a, b)
	}
	if _, err := u.Assign("late"); !errors.Is(err, driverset.ErrNoUser) {
		t.Errorf("Assign() of an empty pool = %v, want ErrNoUser", err)
	}
	u.Release("new")
	first := lend("late")
	u.Release("late")
	if second := lend("later"); second == first {
		t.Errorf("uid %d came back at once, want the other one first", second)
	}
	for uid, want := range map[int]bool{3099999: false, 3100000: true, 3100002: true, 3100003: false} {
		if u.Contains(uid) != want {
			t.Errorf("Contains(%d) = %t, want %t", uid, !want, want)
		}
	}
	if _, err := driverset.NewUsers(0, 5); err == nil {
		t.Error("NewUsers(0, 5) = nil, want an error: 0 is root")
	}
}

// TestUsersAlive runs an unrelated process with a uid of the pool.
func TestUsersAlive(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: to start a process as another user")
	}
	const uid = 3_200_000
	u, err := driverset.NewUsers(uid, uid+1)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got, err := u.Assign("one")
	_, none := u.Assign("two")
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil || got != uid+1 || !errors.Is(none, driverset.ErrNoUser) {
		t.Errorf("Assign() = %d, %v and then %v, want %d only: a process has the other", got, err, none, uid+1)
	}
	if got, err := u.Assign("two"); err != nil || got != uid {
		t.Errorf("Assign() = %d, %v, want %d: its process is gone", got, err, uid)
	}
}

// TestUsersOfTheMachine uses a pool that starts with a uid of the machine's users.
func TestUsersOfTheMachine(t *testing.T) {
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("needs a user that is not root")
	}
	uid, err := strconv.Atoi(nobody.Uid)
	if err != nil || uid < 1 {
		t.Fatalf("nobody is %s", nobody.Uid)
	}
	u, err := driverset.NewUsers(uid, uid)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := u.Assign("one"); !errors.Is(err, driverset.ErrNoUser) {
		t.Errorf("Assign() = %d, %v: that uid belongs to nobody", got, err)
	}
}
