package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func (c *controller) CreateSnapshot(_ context.Context, req *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if req.GetName() == "" || req.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "name and source_volume_id must not be empty")
	}
	id := newID("snap", req.GetName())
	old, err := load[snapshot](c.storage, snapshots, id)
	if exists, err := found(err); err != nil {
		return nil, err
	} else if exists {
		if old.Volume != req.GetSourceVolumeId() {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %q is of another volume", req.GetName())
		}
		return &csi.CreateSnapshotResponse{Snapshot: old.shown()}, nil
	}
	v, err := load[volume](c.storage, volumes, req.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	s := &snapshot{ID: id, Name: req.GetName(), Volume: v.ID, Bytes: v.Bytes, Block: v.Block, Created: time.Now()}
	if err := duplicate(c.storage.path(volumes, v.ID), c.storage.path(snapshots, id), v.Block); err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: s.shown()}, c.storage.save(snapshots, id, s)
}

// shown returns the snapshot as answers have it.
func (s *snapshot) shown() *csi.Snapshot {
	return &csi.Snapshot{SnapshotId: s.ID, SourceVolumeId: s.Volume, SizeBytes: s.Bytes, ReadyToUse: true,
		CreationTime: timestamppb.New(s.Created)}
}

func (c *controller) DeleteSnapshot(_ context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if req.GetSnapshotId() == "" {
		return nil, status.Error(codes.InvalidArgument, "snapshot_id must not be empty")
	}
	_, err := load[snapshot](c.storage, snapshots, req.GetSnapshotId())
	if exists, err := found(err); !exists {
		return &csi.DeleteSnapshotResponse{}, err
	}
	return &csi.DeleteSnapshotResponse{}, c.storage.remove(snapshots, req.GetSnapshotId())
}

func (c *controller) ListSnapshots(_ context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	all, err := list[snapshot](c.storage, snapshots)
	if err != nil {
		return nil, err
	}
	var matching []*snapshot
	for _, s := range all {
		if (req.GetSnapshotId() == "" || req.GetSnapshotId() == s.ID) && (req.GetSourceVolumeId() == "" || req.GetSourceVolumeId() == s.Volume) {
			matching = append(matching, s)
		}
	}
	part, next, err := page(matching, func(s *snapshot) string { return s.ID }, req.GetStartingToken(), req.GetMaxEntries())
	out := &csi.ListSnapshotsResponse{NextToken: next}
	for _, s := range part {
		out.Entries = append(out.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: s.shown()})
	}
	return out, err
}

// fill makes the content of a new volume: empty, or a copy of its source.
func (c *controller) fill(v *volume) error {
	at := c.storage.path(volumes, v.ID)
	var from string
	var bytes int64
	block := v.Block
	switch {
	case v.Snapshot != "":
		s, err := load[snapshot](c.storage, snapshots, v.Snapshot)
		if err != nil {
			return err
		}
		from, bytes, block = c.storage.path(snapshots, s.ID), s.Bytes, s.Block
	case v.Clone != "":
		o, err := load[volume](c.storage, volumes, v.Clone)
		if err != nil {
			return err
		}
		from, bytes, block = c.storage.path(volumes, o.ID), o.Bytes, o.Block
	}
	if block != v.Block || bytes > v.Bytes {
		return status.Error(codes.InvalidArgument, "the source has another access type, or is larger")
	}
	switch {
	case from != "":
		if err := duplicate(from, at, v.Block); err != nil {
			return err
		}
	case !v.Block:
		return os.MkdirAll(at, 0o755)
	}
	if !v.Block {
		return nil
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(v.Bytes), f.Close())
}

// duplicate copies the content of a volume or snapshot. What an interrupted call has copied is replaced.
func duplicate(from, to string, block bool) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if block {
		source, err := os.Open(from)
		if err != nil {
			return err
		}
		defer source.Close()
		target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return copyFile(source, target)
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	source, err := os.OpenRoot(from) // the files of a task cannot lead out of it
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer target.Close()
	return fs.WalkDir(source.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return duplicateFile(source, target, name)
	})
}

// duplicateFile copies a file, directory or link with its owner and mode. Others, such as sockets, are left out.
func duplicateFile(source, target *os.Root, name string) error {
	info, err := source.Lstat(name)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := target.MkdirAll(name, 0o700); err != nil {
			return err
		}
	case fs.ModeSymlink:
		to, err := source.Readlink(name)
		if err != nil {
			return err
		}
		if err := target.Symlink(to, name); err != nil {
			return err
		}
		return target.Lchown(name, int(owner.Uid), int(owner.Gid))
	case 0:
		from, err := source.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer from.Close()
		to, err := target.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := copyFile(from, to); err != nil {
			return err
		}
	default:
		return nil
	}
	return errors.Join(target.Lchown(name, int(owner.Uid), int(owner.Gid)), target.Chmod(name, info.Mode()))
}

// copyFile copies an open file to a new one.
func copyFile(from, to *os.File) error {
	_, err := io.Copy(to, from)
	return errors.Join(err, to.Close())
}
