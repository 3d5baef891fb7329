package hostvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The ID and the version of the built-in plugin.
const (
	MkdirID      = "mkdir"
	mkdirVersion = "0.0.1"
)

// mkdir makes a directory below dir for each volume, with the volume's ID as its name.
type mkdir struct{ dir string }

// owner is who owns the directory of a volume, and its mode.
type owner struct {
	mode     fs.FileMode
	uid, gid int
}

// ownerOf reads the parameters of a volume.
func ownerOf(params map[string]string) (owner, error) {
	o := owner{mode: 0o700, uid: -1, gid: -1}
	for name, value := range params {
		switch name {
		case "mode":
			n, err := strconv.ParseUint(value, 8, 32)
			if err != nil || n > 0o777 {
				return o, fmt.Errorf("parameter mode is %q: use an octal number up to 0777", value)
			}
			o.mode = fs.FileMode(n)
		case "uid", "gid":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < -1 {
				return o, fmt.Errorf("parameter %s is %q: use a numeric ID, or -1 for the user of the agent", name, value)
			}
			if name == "uid" {
				o.uid = int(n)
			} else {
				o.gid = int(n)
			}
		default:
			return o, fmt.Errorf("unknown parameter %q: use mode, uid and gid", name)
		}
	}
	return o, nil
}

// create makes the directory of a volume. A directory that exists is left as it is.
func (p mkdir) create(_ context.Context, req *message.ClientHostVolumeCreateRequest) (made, error) {
	o, err := ownerOf(req.Parameters)
	if err != nil {
		return made{}, apierror.Errorf(400, "%v", err)
	}
	if err := os.MkdirAll(p.dir, volumesMode); err != nil {
		return made{}, err
	}
	root, err := safefs.Open(p.dir)
	if err != nil {
		return made{}, err
	}
	defer root.Close()
	out := made{path: filepath.Join(p.dir, req.ID)}
	sub, err := root.Sub(req.ID)
	if err == nil {
		return out, sub.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return made{}, err
	}
	if err := makeOwned(root, req.ID, o); err != nil {
		return made{}, errors.Join(err, root.RemoveAll(req.ID))
	}
	return out, nil
}

// makeOwned makes a directory and sets its owner before its mode, so that no other user enters it too early.
func makeOwned(root *safefs.Dir, name string, o owner) error {
	sub, err := root.Make(name, 0o700)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := sub.Chown(o.uid, o.gid); err != nil {
		return err
	}
	return sub.Chmod(o.mode)
}

// remove removes the directory of a volume with everything in it.
func (p mkdir) remove(_ context.Context, req *message.ClientHostVolumeDeleteRequest) error {
	root, err := safefs.Open(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(req.ID)
}
