package safefs

import (
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// An access control list in the form of the kernel (acl(5), linux/posix_acl_xattr.h).
const (
	aclName    = "system.posix_acl_access"
	aclVersion = 2

	aclUserObj, aclUser, aclGroupObj, aclMask, aclOther = 1, 2, 4, 16, 32

	aclNoID    = 0xffffffff
	aclExecute = 1
	aclAll     = 7
)

// Admit lets a user pass through the directory, besides its owner. It returns unix.EOPNOTSUPP on a file
// system without access control lists. Calls must not be concurrent.
func (d *Dir) Admit(uid uint32) error {
	users, err := admitted(d.FD())
	if err == nil && !slices.Contains(users, uid) {
		err = unix.Fsetxattr(d.FD(), aclName, aclOf(append(users, uid)), 0)
	}
	if err != nil {
		return d.fail("admit a user to", ".", err)
	}
	return nil
}

// Admits reports whether Admit has let a user pass through a directory.
func Admits(dir string, uid uint32) bool {
	d, err := Open(dir)
	if err != nil {
		return false
	}
	defer d.Close() //nolint:errcheck // a directory
	users, err := admitted(d.FD())
	return err == nil && slices.Contains(users, uid)
}

// admitted returns the users that can pass through a directory.
func admitted(dir int) (users []uint32, err error) {
	buf := make([]byte, 64<<10) // the limit of the kernel
	n, err := unix.Fgetxattr(dir, aclName, buf)
	if errors.Is(err, unix.ENODATA) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for entry := range slices.Chunk(buf[min(n, 4):n], 8) {
		if len(entry) == 8 && binary.LittleEndian.Uint16(entry) == aclUser && binary.LittleEndian.Uint16(entry[2:])&aclExecute != 0 {
			users = append(users, binary.LittleEndian.Uint32(entry[4:]))
		}
	}
	return users, nil
}

// aclOf returns a list by which the owner has all rights, and users can pass through.
func aclOf(users []uint32) []byte {
	out := binary.LittleEndian.AppendUint32(nil, aclVersion)
	add := func(tag, rights uint16, id uint32) {
		out = binary.LittleEndian.AppendUint16(out, tag)
		out = binary.LittleEndian.AppendUint16(out, rights)
		out = binary.LittleEndian.AppendUint32(out, id)
	}
	slices.Sort(users) // the kernel wants the entries in order
	add(aclUserObj, aclAll, aclNoID)
	for _, uid := range users {
		add(aclUser, aclExecute, uid)
	}
	add(aclGroupObj, 0, aclNoID)
	add(aclMask, aclExecute, aclNoID)
	add(aclOther, 0, aclNoID)
	return out
}
