package sandbox

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// narrowLogs replaces the program's log pipes by descriptors that can only be written to. The
// supervisor opens them for reading too, so that writing works while no supervisor runs. Init
// keeps those open (internal/tinyinit). Without init the program has to keep them itself.
func (p *Policy) narrowLogs() error {
	if !p.PrivatePID {
		return nil
	}
	for _, fd := range []int{1, 2} {
		if err := writeOnly(fd); err != nil {
			return fmt.Errorf("open log pipe for writing: %w", err)
		}
	}
	return nil
}

// writeOnly opens a pipe again if fd reads and writes it. As fd is a reader, this cannot block.
func writeOnly(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO || flags&unix.O_ACCMODE != unix.O_RDWR {
		return nil
	}
	again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(again)
	return unix.Dup3(again, fd, 0)
}
