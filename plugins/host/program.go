package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"syscall"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/plugins/hclspec"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// program is an executable in plugin_dir, and what it has reported.
type program struct {
	host *Host
	file string // its name in plugin_dir
	args []string
	log  *slog.Logger
	err  error // why it cannot be used

	device  bool   // it is a device plugin, not a driver
	name    string // of its driver or device plugin
	version *version.Version
	schema  *proto.Spec // of the plugin block; nil if it takes none
}

// ask starts the program once for its name, versions and schema.
func (p *program) ask(ctx context.Context) error {
	proc, err := p.launch(ctx, p.args)
	if err != nil {
		return err
	}
	defer proc.stop()
	err = p.learn(ctx, proc)
	if err != nil {
		err = proc.explain(err)
	}
	return err
}

func (p *program) learn(ctx context.Context, proc *process) error {
	ctx, cancel := context.WithTimeout(ctx, p.host.cfg.Patience)
	defer cancel()
	info, err := proc.base.PluginInfo(ctx, &proto.PluginInfoRequest{})
	if err != nil {
		return fmt.Errorf("read the information of the plugin: %w", wire.DecodeError(err))
	}
	p.device = info.GetType() == proto.PluginType_DEVICE
	switch {
	case info.GetType() != proto.PluginType_DRIVER && info.GetType() != proto.PluginType_DEVICE:
		return fmt.Errorf("%q is a plugin of type %d, and this version supports task drivers and device plugins only",
			wire.Clip(info.GetName()), info.GetType())
	case !slices.Contains(info.GetPluginApiVersions(), wire.APIVersion):
		return fmt.Errorf("%s %q has the API versions %q, and this version supports only %s", p.noun(), wire.Clip(info.GetName()),
			clipAll(info.GetPluginApiVersions()), wire.APIVersion)
	case !isDriverName(info.GetName()):
		return fmt.Errorf("%q is not a name of a %s", wire.Clip(info.GetName()), p.noun())
	}
	p.name = info.GetName()
	if p.version, err = parseVersion(wire.Clip(info.GetPluginVersion())); err != nil {
		return err
	}
	schema, err := proc.base.ConfigSchema(ctx, &proto.ConfigSchemaRequest{})
	if err != nil {
		return fmt.Errorf("read the schema of the plugin block: %w", wire.DecodeError(err))
	}
	if _, err := hclspec.Decode(schema.GetSpec()); err != nil {
		return fmt.Errorf("schema of the plugin block: %w", err)
	}
	p.schema = schema.GetSpec()
	return nil
}

// noun returns what kind of plugin the program is. It is a driver until it has reported otherwise.
func (p *program) noun() string {
	if p.device {
		return "device plugin"
	}
	return "driver"
}

// logKey returns the key of the plugin's name in the log.
func (p *program) logKey() string {
	if p.device {
		return "device_plugin"
	}
	return "driver"
}

// maxVersions limits the versions in an error.
const maxVersions = 10

func clipAll(list []string) (out []string) {
	for _, s := range list[:min(len(list), maxVersions)] {
		out = append(out, wire.Clip(s))
	}
	return out
}

// maxDriverName limits the name of a plugin. That of a driver is part of the names of attributes.
const maxDriverName = 64

func isDriverName(name string) bool {
	return len(name) <= maxDriverName && hclsyntax.ValidIdentifier(name)
}

// open opens the executable. Links are refused, since they lead out of the directory that the
// operator protects.
func (p *program) open() (*os.File, error) {
	fd, err := safefs.OpenBeneath(p.host.dir.FD(), p.file, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, safefs.ErrEscape) {
		return nil, fmt.Errorf("%s in plugin_dir is a symbolic link: copy the program instead", p.file)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s in plugin_dir: %w", p.file, err)
	}
	f := os.NewFile(uintptr(fd), p.file)
	info, err := f.Stat()
	if err == nil {
		err = executable(info)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s in plugin_dir: %w", p.file, err)
	}
	return f, nil
}

func executable(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("is not a regular file")
	}
	if info.Mode().Perm()&0o111 == 0 {
		return errors.New("is not executable")
	}
	return trusted(info)
}

// trusted returns an error if another user than root and the agent's user can change a file.
func trusted(info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("its owner is not known")
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("belongs to uid %d: it must belong to root", st.Uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("has mode %04o: only its owner may write to it", info.Mode().Perm())
	}
	return nil
}
