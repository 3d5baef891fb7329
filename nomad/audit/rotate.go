package audit

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/open-nomad/open-nomad/internal/rotate"
)

// rotateAgain is the pause after a failed rotation.
const rotateAgain = time.Minute

// due reports whether the file must be rotated before n more bytes.
func (fl *file) due(n int64, now time.Time) bool {
	full := fl.cfg.RotateBytes > 0 && fl.size+n > fl.cfg.RotateBytes
	old := fl.cfg.RotateEvery > 0 && now.Sub(fl.begun) >= fl.cfg.RotateEvery
	return (full || old) && fl.size > 0 && !now.Before(fl.pause)
}

// rotate renames the file and creates a new one. If that fails, the current file stays in use
// under its name, so no line is lost.
func (fl *file) rotate(now time.Time) {
	if err := fl.renew(now); err != nil {
		fl.pause = now.Add(rotateAgain)
		fl.log.Warn("rotate the audit log", "err", err)
	}
}

func (fl *file) renew(now time.Time) error {
	name := filepath.Base(fl.path)
	if info, err := fl.f.Stat(); err == nil && info.Size() == 0 {
		fl.size, fl.begun = 0, now // an external program copied and truncated it
		return nil
	}
	archive := rotate.Name(name, now)
	if err := fl.dir.Rename(name, archive); err != nil {
		return err
	}
	next, err := opening{fl.dir, fl.cfg.Mode, now}.take(name, nil)
	if err != nil {
		return errors.Join(err, fl.dir.Rename(archive, name))
	}
	old := fl.f
	fl.begin(next)
	return errors.Join(old.Close(), fl.prune(name))
}

// prune removes the oldest rotated files beyond Keep.
func (fl *file) prune(name string) error {
	if fl.cfg.Keep == 0 {
		return nil
	}
	dir, err := fl.dir.Sub(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, old := range rotate.Expired(names, name, fl.cfg.Keep) {
		errs = append(errs, fl.dir.Remove(old))
	}
	return errors.Join(errs...)
}
