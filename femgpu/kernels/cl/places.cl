// Where entries of element matrices go in a sparse matrix. A place is where the columns of a group (dofs on one point of the mesh)
// begin in their part of a row; its highest bit marks pairs of groups that no other cell has. A dof has an int4: where the two parts
// of its row begin among all values, -1 where it is prescribed; its number among the columns of its group, ~number where another
// rank owns it.
#define OWN ((PLACE)((PLACE)1 << (8 * sizeof(PLACE) - 1)))
#define PLACE_OF(place) ((int)((place) & (PLACE)~OWN))
// The position of the value of a row and a column, neither of them prescribed.
#define AT_VALUE(row, column, place) \
  (PLACE_OF(place) + ((column).z < 0 ? (row).y + ~(column).z : (row).x + (column).z))
