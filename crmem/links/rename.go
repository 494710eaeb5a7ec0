package links

import (
	"strings"

	"crabmem/crmem"
	"crabmem/crmem/metadata"
)

// Renamed returns the content that e must have when old has the name to, so that each link
// leads to the same entry as before. A link to old gets the new name. A link to another
// entry gets that entry's name if it has another spelling that also fits old or the new name.
func Renamed(s *crmem.Store, e, old crmem.Entry, to string) string {
	return metadata.Relink(e.Content, func(link string) string {
		target := metadata.Target(link)
		d, err := s.Link(target)
		if target == "" || err != nil {
			return link
		}
		part, name := strings.TrimSuffix(target, d.Rest), d.Entry.Name
		mayMove := crmem.Fits(to, part) || crmem.Fits(old.Name, part)
		switch isOld := name == old.Name; {
		case isOld && (mayMove || !d.Alias):
			name = to
		case !mayMove, part == name: // also a link to an alias of old
			return link
		}
		if _, err := metadata.LinkTo(name + d.Rest); err != nil {
			return link
		}
		return strings.Replace(link, target, name+d.Rest, 1)
	})
}
