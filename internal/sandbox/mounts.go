package sandbox

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// tmpDir is where programs expect room for files that nobody keeps.
const tmpDir = "/tmp"

// mount makes p.Mounts in the mount namespace of the calling thread, which is its own.
// What is mounted goes by descriptors from beginning to end: a name that a task could
// have prepared is looked up once, and without links.
func (p *Policy) mount(look *lookup) error {
	// Nothing of what follows reaches the host, and nothing of the host's comes in later.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: mount: %w", err)
	}
	if err := p.makeBinds(look); err != nil {
		return err
	}
	if p.Mounts.Tmp != (Path{}) {
		err := p.mountTmp(look)
		if err == nil {
			err = look.add(tmpDir)
		}
		if err != nil {
			return fmt.Errorf("mount private %s: %w", tmpDir, err)
		}
	}
	if p.Mounts.Proc {
		if err := mountProc(); err != nil {
			return fmt.Errorf("mount fresh /proc: %w", err)
		}
	}
	return nil
}

// makeBinds makes the binds. Their sources are those of the host: all are opened before the
// first bind covers anything.
func (p *Policy) makeBinds(look *lookup) error {
	sources := make([]int, 0, len(p.Mounts.Binds))
	defer func() {
		for _, fd := range sources {
			unix.Close(fd)
		}
	}()
	for _, b := range p.Mounts.Binds {
		fd, err := b.openSource()
		if err != nil {
			return fmt.Errorf("mount %s: open the source: %w", b, err)
		}
		sources = append(sources, fd)
	}
	for i, b := range p.Mounts.Binds {
		err := b.mount(look, sources[i])
		if err == nil {
			err = look.add(b.point())
		}
		if err != nil {
			return fmt.Errorf("mount %s: %w", b, err)
		}
	}
	return nil
}

// tree is a copy of a part of the file tree, not mounted yet or by now.
type tree int

// copyTree copies what fd, opened with O_PATH, leads to, with what is mounted below it.
func copyTree(fd int) (tree, error) {
	t, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return -1, syscallError("open_tree", "5.2", err)
	}
	return tree(t), nil
}

func (t tree) close() { unix.Close(int(t)) }

// restrict takes devices and setuid, and writing if wanted, from all mounts of the
// tree, or from none, and asks the kernel whether that is so.
func (t tree) restrict(readOnly bool) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	want := int64(unix.ST_NOSUID | unix.ST_NODEV)
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		want |= unix.ST_RDONLY
	}
	if err := unix.MountSetattr(int(t), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return syscallError("mount_setattr", "5.12", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(t), &fs); err != nil {
		return fmt.Errorf("fstatfs: %w", err)
	}
	if int64(fs.Flags)&want != want {
		return fmt.Errorf("the kernel gave the mount the flags %#x, wanted were %#x", fs.Flags, want)
	}
	return nil
}

// attach mounts the tree on what fd leads to.
func (t tree) attach(fd int) error {
	err := unix.MoveMount(int(t), "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return syscallError("move_mount", "5.2", err)
	}
	return nil
}

// syscallError names the call that failed, and the kernel that brought it if it lacks.
func syscallError(call, since string, err error) error {
	if err == unix.ENOSYS {
		return fmt.Errorf("%s: this kernel has no such call, which Linux %s brought: %w", call, since, err)
	}
	return fmt.Errorf("%s: %w", call, err)
}

func (b Bind) String() string {
	mode := "rw"
	if b.ReadOnly {
		mode = "ro"
	}
	return fmt.Sprintf("%s at %s (%s)", filepath.Join(b.Source.Beneath, b.Source.Name), filepath.Join(b.Beneath, b.Target), mode)
}

func (b Bind) mount(look *lookup, source int) error {
	target, err := b.openTarget(look, source)
	if err != nil {
		return fmt.Errorf("open the destination: %w", err)
	}
	defer unix.Close(target)
	if isDir(source) != isDir(target) {
		return errors.New("one is a directory, the other is not")
	}
	t, err := copyTree(source)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.restrict(b.ReadOnly); err != nil {
		return err
	}
	return t.attach(target)
}

// openSource goes through no link at all.
func (b Bind) openSource() (int, error) {
	if b.Source.Beneath != "" {
		return openBeneath(b.Source.Beneath, b.Source.Name)
	}
	return unix.Openat2(unix.AT_FDCWD, b.Source.Name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

func (b Bind) openTarget(look *lookup, source int) (int, error) {
	if b.Beneath != "" {
		root, err := look.open(b.Beneath)
		if err != nil {
			return -1, err
		}
		defer root.Close()
		return makeMountPoint(int(root.Fd()), b.Target, isDir(source))
	}
	above, err := look.open(filepath.Dir(b.Target))
	if err != nil {
		return -1, err
	}
	defer above.Close()
	fd, err := unix.Openat(int(above.Fd()), filepath.Base(b.Target), unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == nil && isLink(fd) {
		unix.Close(fd)
		return -1, errors.New("it is a link")
	}
	return fd, err
}

// inside are how names are looked up where tasks write.
const inside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

func openBeneath(root, name string) (int, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return unix.Openat2(fd, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: inside})
}

// makeMountPoint opens name below root, making it and the directories above it if they
// are not there, without following a link.
func makeMountPoint(root int, name string, dir bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: inside}
	fd, err := unix.Openat2(root, name, &how)
	if err != unix.ENOENT {
		return fd, err
	}
	at := root
	defer func() {
		if at != root {
			unix.Close(at)
		}
	}()
	parts := strings.Split(path.Clean(name), "/")
	for i, part := range parts {
		if i == len(parts)-1 && !dir {
			return makeFile(at, part)
		}
		if err := unix.Mkdirat(at, part, 0o755); err != nil && err != unix.EEXIST {
			return -1, fmt.Errorf("make directory %s: %w", path.Join(parts[:i+1]...), err)
		}
		next, err := unix.Openat2(at, part, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY, Resolve: inside})
		if err != nil {
			return -1, fmt.Errorf("open directory %s: %w", path.Join(parts[:i+1]...), err)
		}
		if at != root {
			unix.Close(at)
		}
		at = next
	}
	fd, at = at, root
	return fd, nil
}

// makeFile makes an empty file to mount another on.
func makeFile(at int, name string) (int, error) {
	fd, err := unix.Openat(at, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return -1, fmt.Errorf("make file %s: %w", name, err)
	}
	return fd, nil
}

func isDir(fd int) bool  { return fileType(fd) == unix.S_IFDIR }
func isLink(fd int) bool { return fileType(fd) == unix.S_IFLNK }

func fileType(fd int) uint32 {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}

// kept is a granted path below the host's /tmp that stays where it is.
type kept struct {
	name string // below /tmp
	tree tree
	dir  bool
}

// mountTmp mounts the program's own directory on /tmp, and on that again what it was
// granted below the host's: directories of an agent that lives there, for one.
func (p *Policy) mountTmp(look *lookup) error {
	own, err := p.Mounts.Tmp.open(look)
	if err != nil {
		return fmt.Errorf("open %s: %w", p.Mounts.Tmp, err)
	}
	defer own.Close()
	keep, err := p.copyKept(look)
	defer func() {
		for _, k := range keep {
			k.tree.close()
		}
	}()
	if err != nil {
		return err
	}
	at, err := unix.Open(tmpDir, unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", tmpDir, err)
	}
	defer unix.Close(at)
	t, err := copyTree(int(own.Fd()))
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.restrict(false); err != nil {
		return err
	}
	if err := t.attach(at); err != nil {
		return err
	}
	for _, k := range keep {
		if err := k.attach(t); err != nil {
			return fmt.Errorf("keep %s: %w", filepath.Join(tmpDir, k.name), err)
		}
	}
	return nil
}

func (k kept) attach(tmp tree) error {
	at, err := makeMountPoint(int(tmp), k.name, k.dir)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := k.tree.restrict(false); err != nil {
		return err
	}
	return k.tree.attach(at)
}

// copyKept copies what must stay visible below /tmp. What is not there is left out:
// whoever needs it says so.
func (p *Policy) copyKept(look *lookup) ([]kept, error) {
	var out []kept
	for _, granted := range p.belowTmp() {
		f, err := granted.open(look)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("open granted path %s: %w", granted, err)
		}
		t, err := copyTree(int(f.Fd()))
		k := kept{name: granted.full()[len(tmpDir)+1:], tree: t, dir: isDir(int(f.Fd()))}
		f.Close()
		if err != nil {
			return out, fmt.Errorf("copy granted path %s: %w", granted, err)
		}
		out = append(out, k)
	}
	return out, nil
}

// belowTmp lists what is granted below /tmp, the working directory and bound files
// included, without what lies below another of them.
func (p *Policy) belowTmp() []Path {
	all := []Path{{Name: filepath.Clean(p.Dir)}}
	if p.Files != nil {
		all = append(all, p.Files.Paths...)
	}
	for _, b := range p.Mounts.Binds {
		all = append(all, Path{Name: b.Target, Beneath: b.Beneath})
	}
	all = slices.DeleteFunc(all, func(q Path) bool { return !strings.HasPrefix(q.full(), tmpDir+"/") })
	slices.SortStableFunc(all, func(a, b Path) int { return strings.Compare(a.full()+"/", b.full()+"/") })
	var out []Path
	for _, q := range all {
		if n := len(out); n == 0 || !strings.HasPrefix(q.full()+"/", out[n-1].full()+"/") {
			out = append(out, q)
		}
	}
	return out
}

// full is the whole path.
func (p Path) full() string { return filepath.Join(p.Beneath, p.Name) }

// nobodysGroup may look past hidepid; the default would be root's, which programs can
// be members of.
const nobodysGroup = "4294967294"

// mountProc mounts a /proc of the PID namespace that the stage is in.
func mountProc() error {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return syscallError("fsopen", "5.2", err)
	}
	defer unix.Close(fs)
	for _, option := range [][2]string{{"hidepid", "invisible"}, {"gid", nobodysGroup}} {
		if err := unix.FsconfigSetString(fs, option[0], option[1]); err != nil {
			return fmt.Errorf("fsconfig %s=%s: %w", option[0], option[1], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("fsconfig create: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fmt.Errorf("fsmount: %w", err)
	}
	t := tree(fd)
	defer t.close()
	at, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := t.attach(at); err != nil {
		return err
	}
	return checkProc(fd)
}

// checkProc holds what is now seen at /proc against what was made.
func checkProc(made int) error {
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc", &fs); err != nil {
		return err
	}
	var want, have unix.Stat_t
	if err := errors.Join(unix.Fstat(made, &want), unix.Stat("/proc", &have)); err != nil {
		return err
	}
	if fs.Type != unix.PROC_SUPER_MAGIC || have.Dev != want.Dev {
		return fmt.Errorf("what is seen there is not it: type %#x, device %#x instead of %#x", fs.Type, have.Dev, want.Dev)
	}
	return nil
}
