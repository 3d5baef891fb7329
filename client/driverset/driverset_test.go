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

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

func set(t *testing.T, block map[string]cty.Value, extra ...drivers.Driver) *driverset.Set {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	d := mock.New(mock.Name, log)
	if err := d.SetConfig(cty.ObjectVal(block)); err != nil {
		t.Fatal(err)
	}
	s, err := driverset.New(driverset.Config{Drivers: append(extra, d), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, map[string]cty.Value{"shutdown_periodic_after": cty.True, "shutdown_periodic_duration": cty.NumberIntVal(60)})
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
		s := set(t, nil, silent{mock.New(mock.Name, slog.New(slog.DiscardHandler))})
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

// TestInstances runs two instances of a kind: each has its own name, health and attributes.
func TestInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		other := mock.New("other", log)
		if err := other.SetConfig(cty.ObjectVal(map[string]cty.Value{"shutdown_periodic_after": cty.True,
			"shutdown_periodic_duration": cty.NumberIntVal(60)})); err != nil {
			t.Fatal(err)
		}
		s, err := driverset.New(driverset.Config{Drivers: []drivers.Driver{mock.New(mock.Name, log), other},
			Backends: map[string]string{"other": mock.Name}, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		if err := s.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		for name, info := range s.Infos() {
			if got := info.Attributes["driver."+name+".backend"]; got != mock.Name || info.Attributes["driver."+name+".level"] != "none" ||
				len(info.Attributes) != 5 {
				t.Errorf("attributes of %s = %v, want its own, with the backend %s, level and schema", name, info.Attributes, mock.Name)
			}
			sc, ok := s.Schema(info.Attributes["driver."+name+".schema"])
			if spec, err := schema.Parse(sc.Raw); !ok || err != nil || !hcldec.ImpliedType(spec).Equals(hcldec.ImpliedType(other.TaskSpec())) {
				t.Errorf("Schema() of %s = %v, want that of the driver", name, err)
			}
		}
		time.Sleep(61 * time.Second) // virtual time
		synctest.Wait()
		infos := s.Infos()
		if !infos[mock.Name].Healthy || infos["other"].Healthy || infos["other"].Attributes["driver.other.backend"] != "" {
			t.Errorf("after a minute: %+v and %+v, want only the second one undetected", infos[mock.Name], infos["other"])
		}
		cancel()
		<-ended
	})
}

// TestPrivilegeAttributes checks that the attributes of privilege are those of each instance's
// configuration, and absent without it.
func TestPrivilegeAttributes(t *testing.T) {
	for key, option := range map[string]string{"": "", "privileged.enabled": "allow_privileged",
		"privileged.legacy": "legacy_privileged_behavior"} {
		synctest.Test(t, func(t *testing.T) {
			block := map[string]cty.Value{}
			if option != "" {
				block[option] = cty.True
			}
			s := set(t, block)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			if err := s.Ready(ctx); err != nil {
				t.Fatal(err)
			}
			got := s.Infos()[mock.Name].Attributes
			for _, k := range []string{"privileged.enabled", "privileged.legacy"} {
				if want := k == key; (got["driver.mock_driver."+k] == "true") != want {
					t.Errorf("with %q: attributes %v, want %s: %t", option, got, k, want)
				}
			}
			cancel()
			<-ended
		})
	}
}

// boaster is a driver that sends a level and cannot show it, as external drivers can.
type boaster struct{ drivers.Driver }

func (boaster) Name() string { return "boaster" }

func (boaster) Fingerprint(context.Context) <-chan drivers.Fingerprint {
	ch := make(chan drivers.Fingerprint, 1)
	ch <- drivers.Fingerprint{Health: drivers.HealthHealthy, Attributes: map[string]string{
		"driver.boaster.level": "strict", "driver.boaster.lacks": "nothing", "driver.boaster.version": "1"}}
	return ch
}

// TestLevels checks that the attributes of levels come from what a driver shows, not from what it sends.
func TestLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := set(t, map[string]cty.Value{"isolation": cty.StringVal("strict")}, boaster{mock.New(mock.Name, slog.New(slog.DiscardHandler))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		if err := s.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		got := s.Infos()["boaster"].Attributes
		if _, lacks := got["driver.boaster.lacks"]; got["driver.boaster.level"] != "none" || lacks || got["driver.boaster.version"] != "1" {
			t.Errorf("attributes = %v, want level none, without what it lacks", got)
		}
		got = s.Infos()[mock.Name].Attributes
		if _, lacks := got["driver.mock_driver.lacks"]; got["driver.mock_driver.level"] != "strict" || lacks {
			t.Errorf("attributes = %v, want level strict, which lacks nothing", got)
		}
		cancel()
		<-ended
	})
}

func TestNames(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	if _, err := set(t, nil).Driver("exec9"); !errors.Is(err, driverset.ErrUnknown) {
		t.Errorf("Driver(exec9) = %v, want ErrUnknown", err)
	}
	if _, err := driverset.New(driverset.Config{Drivers: []drivers.Driver{mock.New("x", log), mock.New("x", log)}, Log: log}); err == nil ||
		!strings.Contains(err.Error(), `"x"`) {
		t.Errorf("New() with one name twice = %v, want an error that names it", err)
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
	user, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("needs a user that is not root")
	}
	uid, err := strconv.Atoi(user.Uid)
	if err != nil || uid < 1 {
		t.Fatalf("nobody is %s", user.Uid)
	}
	u, err := driverset.NewUsers(uid, uid)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := u.Assign("one"); !errors.Is(err, driverset.ErrNoUser) {
		t.Errorf("Assign() = %d, %v: that uid belongs to nobody", got, err)
	}
}

// unconfigured has no schema, like a plugin that was never configured.
type unconfigured struct{ drivers.Driver }

func (unconfigured) TaskSpec() hcldec.Spec { return hcldec.ObjectSpec{} }

func TestNoSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		d := mock.New("plugin", log)
		if err := d.SetConfig(cty.EmptyObjectVal); err != nil {
			t.Fatal(err)
		}
		s := set(t, nil, unconfigured{d})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		if err := s.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		if got, ok := s.Infos()["plugin"].Attributes["driver.plugin.schema"]; ok {
			t.Errorf("schema = %q, want none", got)
		}
		if _, ok := s.Schema(""); ok {
			t.Error("Schema() of no digest exists")
		}
		cancel()
		<-ended
	})
}
