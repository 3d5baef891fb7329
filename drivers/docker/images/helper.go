package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/drivers/docker/files"
	"github.com/open-nomad/open-nomad/internal/firstbytes"
	"github.com/open-nomad/open-nomad/internal/hostuser"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Limits of a helper.
const (
	helperPatience = 30 * time.Second
	maxHelper      = 64 << 10
)

// helperDirs are the directories of helpers without auth.helper_dir, and helperPath is what helpers have as PATH.
var helperDirs = []string{"/usr/local/bin", "/usr/bin"}

const helperPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// notHere is the text that helpers print if they have no credentials for a registry.
const notHere = "credentials not found"

// fromHelper asks a credential helper. Nothing of its output is part of an error, and it gets nothing of the agent's
// environment.
func fromHelper(ctx context.Context, s *config.Plugin, name, host string) (*config.Credentials, error) {
	if name != filepath.Base(name) || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' }) {
		return nil, fmt.Errorf("%q is not the name of a credential helper", name)
	}
	program := "docker-credential-" + name
	dirs := helperDirs
	if s.HelperDir != "" {
		dirs = []string{s.HelperDir}
	}
	at, err := openHelper(dirs, program)
	if err != nil {
		return nil, err
	}
	defer at.Close() //nolint:errcheck // opened with O_PATH
	ctx, cancel := context.WithTimeout(ctx, helperPatience)
	defer cancel()
	out := &firstbytes.Buffer{Limit: maxHelper}
	err = runHelper(ctx, at, host, out)
	if err != nil {
		if strings.Contains(out.String(), notHere) {
			return nil, nil
		}
		return nil, fmt.Errorf("run %s: %w", program, err)
	}
	var found config.Credentials
	if json.Unmarshal(out.Bytes(), &found) != nil {
		return nil, fmt.Errorf("the answer of %s is not JSON", program)
	}
	return &found, nil
}

// runHelper runs an open program in a process group of its own, which ends with it.
func runHelper(ctx context.Context, program *os.File, host string, out *firstbytes.Buffer) error {
	const inherited = 3 // the number of the first of ExtraFiles; an interpreter of a script opens it again
	cmd := exec.CommandContext(ctx, "/proc/self/fd/"+strconv.Itoa(inherited), "get")
	cmd.ExtraFiles = []*os.File{program}
	cmd.Args[0] = filepath.Base(program.Name())
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + helperPath, "HOME=" + home()}
	cmd.Stdin, cmd.Stdout = strings.NewReader(host), out
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	end := func() error {
		if err := cmd.Process.Signal(unix.Signal(0)); err != nil {
			return err // it was waited for: its number may be that of another process
		}
		return unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	}
	cmd.Cancel = end
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	end() //nolint:errcheck // processes that it has left; the group usually has none
	return cmd.Wait()
}

// home returns the home directory of the agent's user, "/" if it has none.
func home() string {
	u, err := hostuser.Lookup(strconv.Itoa(os.Geteuid()))
	if err != nil || !filepath.IsAbs(u.Home) {
		return "/"
	}
	return u.Home
}

// openHelper opens a program of one of the directories, which only root and the agent's user can change.
func openHelper(dirs []string, program string) (*os.File, error) {
	for _, dir := range dirs {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, program))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find the credential helper %s: %w", program, err)
		}
		if err := onlyOwn(path); err != nil {
			return nil, fmt.Errorf("the credential helper %s: %w", program, err)
		}
		at, err := files.NoLinks(path)
		if err != nil {
			return nil, fmt.Errorf("open the credential helper %s: %w", program, err)
		}
		return at, nil
	}
	return nil, fmt.Errorf("the credential helper %s is not in %s", program, strings.Join(dirs, " or "))
}

// onlyOwn returns an error if others than root and the agent's user can change a program, or replace it.
func onlyOwn(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is not a regular file", path)
	}
	const others = "others than root and the user of the agent can change"
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s %s", others, path)
	}
	if err := safefs.Protected(filepath.Dir(path)); err != nil {
		return fmt.Errorf("%s %s: %w", others, path, err)
	}
	return nil
}
