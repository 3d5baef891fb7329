package safefs

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPause is the interval between two tries to lock a file.
const lockPause = 10 * time.Millisecond

// Lock locks an open file for this process until it is closed (flock(2), LOCK_EX). It waits for another holder for some
// time: a program that was killed while it started another one holds its locks until that one is executed. The error is
// unix.EWOULDBLOCK if the other holder remains.
func Lock(f *os.File, wait time.Duration) error {
	for end := time.Now().Add(wait); ; time.Sleep(lockPause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
	}
}
