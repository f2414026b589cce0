// The Gaussian kernels of the image graph in polar coordinates (device.PolarWeights; the formulas of
// device/cpu/polar.go), in double. A thread for each pair of regions of an image.
#include "common.cuh"

// Arc tangent (Cephes atan, S. L. Moshier): the argument is reduced to [-0.42, 0.66].
VSE_INLINE double atan_(double v) {
  double x = v < 0 ? -v : v, y = 0, more = 0;
  if (x > 2.41421356237309504880) {
    y = 1.57079632679489661923;
    more = 6.123233995736765886130e-17;
    x = -1 / x;
  } else if (x > 0.66) {
    y = 0.78539816339744830962;
    more = 0.5 * 6.123233995736765886130e-17;
    x = (x - 1) / (x + 1);
  }
  double z = x * x;
  double p = (((-8.750608600031904122785e-01 * z - 1.615753718733365076637e+01) * z - 7.500855792314704667340e+01) * z -
              1.228866684490136173410e+02) *
                 z -
             6.485021904942025371773e+01;
  double q =
      ((((z + 2.485846490142306297962e+01) * z + 1.650270098316988542046e+02) * z + 4.328810604912902668951e+02) * z +
       4.853903996359136964868e+02) *
          z +
      1.945506571482613964425e+02;
  double a = y + (x * (z * p / q) + x + more);
  return v < 0 ? -a : a;
}

enum { kCoordinates = 4 };
#define PI 3.14159265358979323846

VSE_INLINE double atan2_(double y, double x) {
  if (x == 0) return y == 0 ? 0 : y < 0 ? -PI / 2 : PI / 2;
  double a = atan_(y / x);
  return x > 0 ? a : y < 0 ? a - PI : a + PI;
}

struct Polar { double rho, theta; };

// place_of is where region i of an image is seen from region j: pair = (image·r + i)·r + j.
VSE_INLINE Polar polar_of(const float* boxes, i64 pair, int r) {
  i64 i = pair / r, j = i / r * r + (pair - i * r);
  const float *a = boxes + i * kCoordinates, *b = boxes + j * kCoordinates;
  double dx = (a[0] + 0.5 * ((double)a[2] - a[0])) - (b[0] + 0.5 * ((double)b[2] - b[0]));
  double dy = (a[1] + 0.5 * ((double)a[3] - a[1])) - (b[1] + 0.5 * ((double)b[3] - b[1]));
  Polar p;
  p.rho = sqrt(dx * dx + dy * dy);
  p.theta = atan2_(dx, dy);
  return p;
}

// param holds MeanRho, MeanTheta, PrecisionRho, PrecisionTheta, [4, k].
struct Kernel { double rho, theta, rho_var, theta_var, exponent; };

VSE_INLINE Kernel kernel_of(Polar p, const float* mean_rho, const float* mean_theta, const float* precision_rho,
                            const float* precision_theta, int q) {
  Kernel x;
  x.rho = p.rho - mean_rho[q];
  x.theta = p.theta - mean_theta[q];
  double s = precision_rho[q], t = precision_theta[q];
  x.rho_var = 1e-14 + s * s;
  x.theta_var = 1e-14 + t * t;
  double a = x.theta < 0 ? -x.theta : x.theta, round = 2 * PI - a;
  if ((round < 0 ? -round : round) < a) x.theta -= x.theta < 0 ? -2 * PI : 2 * PI;  // shorter the other way round
  x.exponent = -x.rho * x.rho / (2 * x.rho_var) - x.theta * x.theta / (2 * x.theta_var);
  return x;
}

struct Softmax { double top; float total; };

VSE_INLINE Softmax softmax_of(Polar p, const float* mean_rho, const float* mean_theta, const float* precision_rho,
                              const float* precision_theta, int k) {
  Softmax s;
  s.top = kernel_of(p, mean_rho, mean_theta, precision_rho, precision_theta, 0).exponent;
  for (int q = 1; q < k; q++) {
    double e = kernel_of(p, mean_rho, mean_theta, precision_rho, precision_theta, q).exponent;
    if (e > s.top || e != e) s.top = e;
  }
  s.total = 0;
  for (int q = 0; q < k; q++)
    s.total += exp_((float)(kernel_of(p, mean_rho, mean_theta, precision_rho, precision_theta, q).exponent - s.top));
  return s;
}

// weights [pairs, k]
KERNEL polar_weights(float* weights, const float* boxes, const float* mean_rho, const float* mean_theta,
                     const float* precision_rho, const float* precision_theta, int r, int k, i64 pairs) {
  EACH(i, pairs) {
    Polar p = polar_of(boxes, i, r);
    Softmax s = softmax_of(p, mean_rho, mean_theta, precision_rho, precision_theta, k);
    for (int q = 0; q < k; q++)
      weights[i * k + q] =
          exp_((float)(kernel_of(p, mean_rho, mean_theta, precision_rho, precision_theta, q).exponent - s.top)) /
          s.total;
  }
}

// part [blocks, 4, k]: the parameters' gradients over the pairs of a block. With sums dweights belongs to regions, not
// to pairs.
KERNEL polar_grad(double* part, const float* dweights, const float* boxes, const float* mean_rho,
                  const float* mean_theta, const float* precision_rho, const float* precision_theta, int r, int k,
                  int sums, i64 pairs) {
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  bool there = i < pairs;
  if (!there) i = pairs - 1;
  Polar p = polar_of(boxes, i, r);
  Softmax s = softmax_of(p, mean_rho, mean_theta, precision_rho, precision_theta, k);
  const float* dw = dweights + (sums ? i / r : i) * k;
  double mean = 0;
  for (int q = 0; q < k; q++) {
    float e = exp_((float)(kernel_of(p, mean_rho, mean_theta, precision_rho, precision_theta, q).exponent - s.top));
    mean += (double)(e / s.total) * dw[q];
  }
  part += (i64)blockIdx.x * 4 * k;
  for (int q = 0; q < k; q++) {
    Kernel x = kernel_of(p, mean_rho, mean_theta, precision_rho, precision_theta, q);
    double w = exp_((float)(x.exponent - s.top)) / s.total, de = there ? w * (dw[q] - mean) : 0;
    double a = block_total(de * x.rho / x.rho_var), b = block_total(de * x.theta / x.theta_var);
    double c = block_total(de * x.rho * x.rho * precision_rho[q] / (x.rho_var * x.rho_var)),
           d = block_total(de * x.theta * x.theta * precision_theta[q] / (x.theta_var * x.theta_var));
    if (threadIdx.x) continue;
    part[q] = a;
    part[k + q] = b;
    part[2 * k + q] = c;
    part[3 * k + q] = d;
  }
}

// The gradients [k] from the parts, in turn. A block for each of the 4k numbers.
KERNEL polar_sums(float* mean_rho, float* mean_theta, float* precision_rho, float* precision_theta, const double* part,
                  int count, int k) {
  double s = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) s += part[(i64)i * 4 * k + blockIdx.x];
  s = block_total(s);
  int which = (int)blockIdx.x / k, q = (int)blockIdx.x % k;
  float* to = which == 0 ? mean_rho : which == 1 ? mean_theta : which == 2 ? precision_rho : precision_theta;
  if (threadIdx.x == 0) to[q] = (float)s;
}
