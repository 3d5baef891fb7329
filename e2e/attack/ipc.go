package attack

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ipcOperations use IPC objects with a number or name.
var ipcOperations = []Operation{
	{Name: "ipc/shared-memory", try: func(t *Targets) error { return call(unix.SYS_SHMAT, uintptr(t.Shm), 0, 0) }},
	{Name: "ipc/shared-memory-remove", try: func(t *Targets) error {
		const stat = 2 // IPC_STAT: without it no other access is possible
		var ds [256]byte
		return call(unix.SYS_SHMCTL, uintptr(t.Shm), stat, addr(&ds))
	}},
	{Name: "ipc/semaphore", try: func(t *Targets) error {
		const getVal = 12
		return call(unix.SYS_SEMCTL, uintptr(t.Sem), 0, getVal, 0)
	}},
	{Name: "ipc/message-queue", try: func(t *Targets) error {
		msg := [3]uint64{1}
		const noWait = 0o4000
		return call(unix.SYS_MSGSND, uintptr(t.Msg), addr(&msg), 8, noWait)
	}},
	{Name: "ipc/posix-queue", try: func(t *Targets) error {
		return call(unix.SYS_MQ_OPEN, addr(cstring(t.Queue)), unix.O_RDWR, 0, 0)
	}},
	{Name: "ipc/dev-shm-open", try: opener(unix.O_RDWR, func(t *Targets) string { return t.DevShm })},
	{Name: "ipc/dev-shm-create", try: opener(unix.O_RDWR|unix.O_CREAT, func(t *Targets) string { return t.DevShm + ".probe" })},
	{Name: "ipc/dev-shm-list", try: opener(unix.O_RDONLY|unix.O_DIRECTORY, func(t *Targets) string { return filepath.Dir(t.DevShm) })},
	{Name: "ipc/own-shared-memory", Why: "memory of its own IPC namespace, reckoned to its control group", try: func(*Targets) error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	}},
}
