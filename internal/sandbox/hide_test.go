package sandbox_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// A hidden directory looks empty under all its names. Grants below it stay visible, also those
// through a link elsewhere, and so do binds.
func TestHide(t *testing.T) {
	p := newPlaces(t)
	s := newSpread(t, p)
	run, alias := filepath.Join(p.alloc, "run"), filepath.Join(p.alloc, "var-run")
	outside := filepath.Join(p.alloc, "outside")
	if err := errors.Join(os.MkdirAll(filepath.Join(run, "service/deep"), 0o755),
		os.Mkdir(filepath.Join(run, "volume"), 0o755),
		os.Symlink("run", alias), os.Symlink(filepath.Join(run, "service/file"), outside)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(run, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write(t, filepath.Join(run, "service/file"), "file\n")
	write(t, filepath.Join(run, "service/deep/other"), "other\n")
	write(t, filepath.Join(s.volume, "own"), "volume\n")
	hide := []string{run, alias, filepath.Join(p.alloc, "absent")}
	bind := sandbox.Bind{Source: sandbox.Path{Name: s.volume}, Target: filepath.Join(run, "volume")}
	script := `cd ` + p.alloc + `; for f in run/socket run/service run/service/file run/service/deep/other \
		var-run/service/file outside run/volume/own; do
		[ -e $f ] && echo $f; done; (: >run/new) 2>/dev/null && echo made; true`
	const all = "run/socket\nrun/service\nrun/service/file\nrun/service/deep/other\nvar-run/service/file\noutside\n"
	const file = "run/service\nrun/service/file\nvar-run/service/file\noutside\n"
	for name, tt := range map[string]struct {
		hide, granted []string
		binds         []sandbox.Bind
		want          string
	}{
		"not hidden":             {nil, nil, nil, all},
		"nothing granted":        {hide, nil, nil, ""},
		"a file":                 {hide, []string{run + "/service/file"}, nil, file},
		"a file by the alias":    {hide, []string{alias + "/service/file"}, nil, file},
		"a file by a link":       {hide, []string{outside}, nil, file},
		"a directory":            {hide, []string{run + "/service"}, nil, strings.Replace(all, "run/socket\n", "", 1)},
		"a volume":               {hide, nil, []sandbox.Bind{bind}, "run/volume/own\n"},
		"what is around it":      {hide, []string{"/"}, nil, ""},
		"the directory":          {hide, []string{run}, nil, all},
		"the directory by alias": {hide, []string{alias}, nil, all},
	} {
		t.Run(name, func(t *testing.T) {
			var paths []sandbox.Path
			for _, at := range tt.granted {
				paths = append(paths, sandbox.Path{Modes: "r", Name: at})
			}
			pol := s.granting(p, &sandbox.Mounts{Hide: tt.hide, Binds: tt.binds}, paths...)
			if got := runPolicy(t, pol, script); got.reason != "" || got.out != tt.want {
				t.Errorf("the program was %q, wrote %q, want %q", got.reason, got.out, tt.want)
			}
		})
	}
}

// An allocation's directory below a hidden directory stays visible, with its view.
func TestHideAroundTheAllocation(t *testing.T) {
	dir, p := neighbours(t)
	policy := p.policy(&sandbox.Mounts{Hide: []string{filepath.Dir(dir)}, Proc: true,
		View: sandbox.View{Dir: dir, Own: "mine"}})
	r := runPolicy(t, policy, "cat secrets/token; ls "+dir+"/other 2>/dev/null; echo x >tmp/f && ln tmp/f g && cat g")
	if r.reason != "" || r.out != "before\nx\n" {
		t.Errorf("program = %+v, want its own directory and no other", r)
	}
}
